//! `sluice check`: reads a configuration and says in words what it makes.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::{Config, Driver, HairpinConfig, IdlePolicy, InstanceConfig, LagConfig, LagModeConfig, Role};
#[cfg(feature = "tls")]
use oam::rest::Certificates;
use ports::Ports;

/// Validates the configuration at `path`; exit status 2 and the reason on standard error when it has a mistake. With
/// `ports` the ports are opened, and it is said what they can do; exit status 1 when one cannot be had.
pub fn check(path: &Path, ports: bool) -> ExitCode {
    match Config::load(path) {
        Ok(config) => {
            print!("{}", explain(&config));
            for line in config.notes() {
                println!("Note       {line}");
            }
            if let Err(why) = check_https(&config) {
                eprintln!("{}: control.https: {why}", path.display());
                return ExitCode::from(CONFIGURATION_ERROR);
            }
            if let Err(why) = check_accelerator(&config) {
                eprintln!("{}: accelerator.link: {why}", path.display());
                return ExitCode::from(CONFIGURATION_ERROR);
            }
            if ports {
                check_ports(&config)
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(CONFIGURATION_ERROR)
        }
    }
}

/// Reads the key of the link to an accelerator.
fn check_accelerator(config: &Config) -> Result<(), String> {
    let link = config.accelerator.as_ref().map(|accelerator| &accelerator.link);
    link.map_or(Ok(()), |link| {
        link.key().map(drop).map_err(|error| error.to_string())
    })
}

/// Reads certificate and key of the API for other hosts, and says what they are.
#[cfg(feature = "tls")]
fn check_https(config: &Config) -> Result<(), String> {
    let Some(https) = &config.control.https else {
        return Ok(());
    };
    let certificates = Certificates::load(https).map_err(|error| error.to_string())?;
    let addresses: Vec<_> = https.addresses.iter().map(ToString::to_string).collect();
    println!(
        "API        over TLS on {}, by the certificate {}",
        addresses.join(", "),
        certificates.summary()
    );
    for client in &https.clients {
        println!("API        {} is {}", client.san, client.role);
    }
    Ok(())
}

/// There is no TLS in this program.
#[cfg(not(feature = "tls"))]
fn check_https(config: &Config) -> Result<(), String> {
    match &config.control.https {
        None => Ok(()),
        Some(_) => Err("this program was built without TLS (feature `tls`)".to_owned()),
    }
}

/// Opens the ports as `sluice run` does, says what they can do, and closes them.
fn check_ports(config: &Config) -> ExitCode {
    let fault = |error: &dyn std::fmt::Display| {
        eprintln!("check: {error}");
        ExitCode::from(RUN_ERROR)
    };
    let eal = match ports::start_eal(config) {
        Ok(eal) => eal,
        Err(error) => return fault(&error),
    };
    let (ports, failed) = match Ports::start_those_that_can(eal, config) {
        Ok(started) => started,
        Err(error) => return fault(&error),
    };
    println!("\nThe ports, opened as `sluice run` opens them and closed again:");
    for (name, lines) in ports.audit(config) {
        println!("\nport       {name}");
        for (about, words) in lines {
            println!("           {about:<18}  {words}");
        }
    }
    let mut outcome = ExitCode::SUCCESS;
    for error in &failed {
        outcome = fault(error);
    }
    outcome
}

/// What the configuration makes, a few lines that a person reads.
fn explain(config: &Config) -> String {
    let mut text = String::new();
    explain_n4(&mut text, config);
    let limits = &config.limits;
    let _ = writeln!(
        text,
        "workers    {}, for {} sessions, {} IPv4 and {} IPv6 flows",
        config.workers.count.value(),
        limits.sessions.value(),
        limits.flows_ipv4.value(),
        limits.flows_ipv6.value()
    );
    let idle = match config.idle_policy() {
        IdlePolicy::Busy => "busy: workers without packets poll on".to_owned(),
        IdlePolicy::Adaptive => format!(
            "adaptive: workers without packets sleep, {} us at most",
            config.idle_sleep().as_micros()
        ),
        IdlePolicy::Interrupt => {
            "interrupt: workers without packets wait for the sockets of their ports".to_owned()
        }
    };
    let _ = writeln!(text, "idle       {idle}");
    for port in &config.ports {
        let workers = config.workers.count.value() as u16;
        let (what, expectation) = match (&port.driver, &port.lag) {
            (Some(of), _) => (driver(of), ports::expectation(of, workers)),
            (None, Some(lag)) => (explain_lag(lag), "queues are those of its members"),
            // The configuration was checked.
            (None, None) => continue,
        };
        let _ = writeln!(
            text,
            "port       {}: {what}, MTU {}; {expectation}",
            port.name.value,
            port.mtu.value(),
        );
    }
    config
        .instances
        .iter()
        .for_each(|instance| explain_instance(&mut text, instance));
    for rulebase in config.predefined().rulebases() {
        let _ = writeln!(
            text,
            "rulebase   {}: {} rules, with {} FARs, {} QERs and {} URRs",
            rulebase.name().escape_ascii(),
            rulebase.rules().len(),
            rulebase.fars().len(),
            rulebase.qers().len(),
            rulebase.urrs().len()
        );
    }
    text
}

fn explain_n4(text: &mut String, config: &Config) {
    let node = &config.node.id.0;
    let addresses: Vec<String> = config
        .n4
        .addresses
        .iter()
        .map(|address| address.value.to_string())
        .collect();
    let _ = writeln!(
        text,
        "node       {node}, N4 on {} port {}{}",
        addresses.join(", "),
        config.n4.port.value(),
        config
            .n4
            .device
            .as_ref()
            .map_or_else(String::new, |device| format!(", by {} alone", device.value))
    );
    let smfs: Vec<String> = config.n4.smfs().map(|smf| smf.address.to_string()).collect();
    if !smfs.is_empty() {
        let _ = writeln!(
            text,
            "SMFs       associations are set up with {}",
            smfs.join(", ")
        );
    }
    let f_teids = if config.n4.accept_cp_f_teids {
        "ours, or the SMF's choice"
    } else {
        "ours"
    };
    let _ = writeln!(text, "F-TEIDs    {f_teids}");
}

fn explain_lag(lag: &LagConfig) -> String {
    let members: Vec<&str> = lag.members.iter().map(|member| member.value.as_str()).collect();
    let members = members.join(", ");
    let lacp = lag.lacp.as_ref().map(|lacp| lacp.value).unwrap_or_default();
    match lag.mode {
        LagModeConfig::Balance => format!("LAG of {members}, by links alone"),
        LagModeConfig::ActiveBackup => format!("one of {members}, the others wait"),
        LagModeConfig::Lacp if lacp.fast => format!("LAG of {members} by LACP, fast"),
        LagModeConfig::Lacp => format!("LAG of {members} by LACP, slow"),
    }
}

fn driver(driver: &Driver) -> String {
    match driver {
        Driver::Memory {} => "memory".into(),
        Driver::AfPacket {
            interface,
            udp_segmentation: true,
            ..
        } => format!("AF_PACKET on {interface}, UDP segmentation"),
        Driver::AfPacket { interface, .. } => format!("AF_PACKET on {interface}"),
        Driver::AfXdp { interface, .. } => format!("AF_XDP on {interface}"),
        Driver::Pcap { rx, tx } => format!("captures {} to {}", rx.display(), tx.display()),
        Driver::Pci { address } => format!("PCI {address}"),
        Driver::Accelerator { mac } => format!("a port of the accelerator, at {mac}"),
    }
}

fn explain_instance(text: &mut String, instance: &InstanceConfig) {
    let roles: Vec<&str> = instance.roles.iter().map(|role| role_name(*role)).collect();
    let addresses: Vec<String> = instance
        .addresses
        .iter()
        .map(|address| address.value.to_string())
        .collect();
    let vlan = instance
        .vlan
        .map_or_else(|| "untagged".into(), |vlan| vlan.tags().to_string());
    let vrf = instance.vrf.map_or(0, |vrf| vrf.value());
    let _ = writeln!(
        text,
        "instance   {}: {} on {} {vlan}, VRF {vrf}, {}",
        instance.name.value,
        roles.join("+"),
        instance.port.value,
        addresses.join(", ")
    );
    if let Some(host) = &instance.host {
        let addresses = if host.addresses { "with" } else { "without" };
        let _ = writeln!(
            text,
            "           the host is there by {}, {addresses} these addresses",
            host.interface.value
        );
    }
    for route in &instance.routes {
        let mac = route
            .mac
            .as_ref()
            .map_or_else(String::new, |mac| format!(" at {}", mac.value));
        let _ = writeln!(text, "           {} via {}{mac}", route.to.value, route.via.value);
    }
    let to_ues = match instance.hairpin {
        HairpinConfig::Router => return,
        HairpinConfig::Local => "to UEs here",
        HairpinConfig::Drop => "to no UE of another",
    };
    for prefix in &instance.ue_prefixes {
        let _ = writeln!(text, "           {} {to_ues}", prefix.value);
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::N3 => "N3",
        Role::N6 => "N6",
        Role::N9 => "N9",
        Role::N4u => "N4-u",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../../docs/guide/network.md");

    #[test]
    fn the_file_of_the_guide_is_explained_as_the_guide_says() {
        let (_, rest) = GUIDE.split_once("```yaml\n").unwrap();
        let config = Config::parse(rest.split_once("```").unwrap().0, "sluice.yaml").unwrap();
        let said = explain(&config);
        let (_, quoted) = GUIDE.split_once("`sluice check` says of this file:\n\n").unwrap();
        let quoted = quoted.split_once("\n\n").unwrap().0;
        for line in quoted.lines() {
            assert!(said.lines().any(|said| said == &line[4..]), "{line}\n{said}");
        }
    }
}
