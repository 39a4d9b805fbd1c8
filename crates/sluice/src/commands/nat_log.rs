//! `sluice show nat ADDRESS:PORT --at TIME`: who had a public port then, by the files of `nat.log`; or by the
//! configuration alone, where the UE's address follows from the port (RFC 7422).
//!
//! The files are read, also while a daemon writes them: no daemon is asked.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::Config;
use flow::VrfId;
use natlog::{Answer, Found, Gap, LogError, NatLogReader};
use serde_json::json;

/// Who had `endpoint` at a time, by the log of this configuration; of the address space of `instance`, if it names one.
///
/// # Errors
/// There is no such log, the address space is not clear, or the file cannot be read, in words.
pub(super) fn holder_at(
    config: &Config,
    endpoint: SocketAddrV4,
    instance: Option<&str>,
    at: SystemTime,
    as_json: bool,
) -> Result<String, String> {
    let vrf = address_space(config, *endpoint.ip(), instance)?;
    let fixed = || by_configuration(config, endpoint, vrf, as_json);
    let log = config.nat.log.as_ref().and_then(|log| log.directory.as_ref());
    let Some(directory) = log.map(|log| &log.value) else {
        return fixed().ok_or_else(|| "the configuration has no nat.log.directory".to_owned());
    };
    let fault = |error| format!("log of port blocks in {}: {error}", directory.display());
    let time_ms =
        u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
    let asked = ask(directory, time_ms, vrf, endpoint).map_err(fault);
    // What the log has was so, whatever the configuration is by now.
    let is_found = matches!(&asked, Ok((Some(answer), _)) if answer.found.is_some());
    if !is_found && let Some(answer) = fixed() {
        return Ok(answer);
    }
    let (answer, known) = asked?;
    Ok(match as_json {
        true => format!("{:#}\n", as_value(endpoint, time_ms, answer.as_ref(), known)),
        false => text(endpoint, time_ms, answer.as_ref(), known),
    })
}

/// What the log says, and of which times it knows: that first, as it may come to know more in between.
fn ask(
    directory: &Path,
    time_ms: u64,
    vrf: VrfId,
    endpoint: SocketAddrV4,
) -> Result<(Option<Answer>, Option<RangeInclusive<u64>>), LogError> {
    let mut reader = NatLogReader::open(directory)?;
    let known = reader.known()?;
    let answer = reader.at(time_ms, vrf, *endpoint.ip(), endpoint.port())?;
    Ok((answer, known))
}

/// The answer where the pool is deterministic: it is not logged, and as long as the configuration is the same, so is
/// the UE. Whether it was then is not known here.
fn by_configuration(config: &Config, endpoint: SocketAddrV4, vrf: VrfId, as_json: bool) -> Option<String> {
    let network = config.network().ok()?;
    let pools = network.nat().pools();
    let block = pools.block_of(vrf, *endpoint.ip(), endpoint.port())?;
    let (pool, ports) = pools.block(block)?;
    let ue = pools.deterministic(pool)?.inside_of_block(block);
    let (name, ports) = (&pools.pool(pool)?.name, ports.ports());
    if as_json {
        let answer = json!({
            "address": endpoint.ip(),
            "port": endpoint.port(),
            "deterministic": {
                "pool": name,
                "ue": ue,
                "first_port": ports.start(),
                "last_port": ports.end(),
            },
        });
        return Some(format!("{answer:#}\n"));
    }
    let ue = ue.map_or_else(|| "none has these ports".to_owned(), |ue| ue.to_string());
    let (first, last) = (ports.start(), ports.end());
    Some(format!(
        "{endpoint} by this configuration, if it was in use then\n  UE          {ue}\n  pool        {name}, deterministic\n  \
         block       ports {first}-{last}\n"
    ))
}

/// The address space of the instance with this name, else of the pools that have the address.
fn address_space(config: &Config, address: Ipv4Addr, instance: Option<&str>) -> Result<VrfId, String> {
    let network = config.network().map_err(|error| error.to_string())?;
    if let Some(name) = instance {
        let known = network.instance_by_name(name.as_bytes());
        return known
            .map(|instance| instance.vrf)
            .ok_or_else(|| format!("there is no network instance `{name}`"));
    }
    let pools = network.nat().pools();
    let mut spaces: Vec<VrfId> = pools.all().iter().map(|pool| pool.vrf).collect();
    spaces.sort_unstable();
    spaces.dedup();
    spaces.retain(|vrf| pools.pool_of(*vrf, address).is_some());
    match spaces[..] {
        [] => Err(format!(
            "{address} is of no pool of the configuration: name its network instance"
        )),
        [vrf] => Ok(vrf),
        [..] => Err(format!(
            "{address} is of pools in several address spaces: name the network instance"
        )),
    }
}

fn date(time_ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time_ms)).to_string()
}

fn text(
    endpoint: SocketAddrV4,
    time_ms: u64,
    answer: Option<&Answer>,
    known: Option<RangeInclusive<u64>>,
) -> String {
    let mut text = format!("{endpoint} at {}\n", date(time_ms));
    let gap = answer.and_then(|answer| answer.gap);
    let is_behind = known.as_ref().is_some_and(|known| *known.end() < time_ms);
    match answer.and_then(|answer| answer.found.as_ref()) {
        Some(found) => add_holder(&mut text, found),
        None if gap.is_some() => text.push_str("  no session by what is in the log\n"),
        None if known.as_ref().is_some_and(|known| known.contains(&time_ms)) => {
            text.push_str("  no session had it\n");
        }
        None => text.push_str("  not known\n"),
    }
    if let Some(gap) = gap {
        let words = gap_words(&gap, answer.is_some_and(|answer| answer.is_held_around_gap));
        let _ = writeln!(text, "  not certain {words}");
    }
    if is_behind {
        text.push_str("  not certain behind the end of the log\n");
    }
    let (first, last) = known.map_or_else(
        || ("-".into(), "-".into()),
        |known| (date(*known.start()), date(*known.end())),
    );
    let _ = writeln!(text, "  log         from {first} to {last}");
    text
}

/// Why an answer is not certain.
fn gap_words(Gap { from_ms, to_ms, lost }: &Gap, is_held_around: bool) -> String {
    let what = match lost {
        0 => "events may be missing".to_owned(),
        lost => format!("{lost} events are missing"),
    };
    let to = to_ms.map_or_else(|| "now".to_owned(), date);
    let held = match is_held_around {
        true => "; the session had it before and behind that",
        false => "",
    };
    format!("{what} from {} to {to}{held}", date(*from_ms))
}

fn add_holder(text: &mut String, Found { assignment, until_ms }: &Found) {
    let (holder, ports) = (&assignment.holder, assignment.block.ports());
    let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
    let rows = [
        ("UE", holder.inside.to_string()),
        ("subscriber", or_none(&holder.subscriber)),
        ("DNN", or_none(&holder.dnn)),
        ("session", format!("{:#018x}", holder.seid)),
        ("instance", or_none(&holder.instance)),
        ("block", format!("ports {}-{}", ports.start(), ports.end())),
        ("since", date(assignment.since_ms)),
        (
            "until",
            until_ms.map_or_else(|| "no end in the file of that day".to_owned(), date),
        ),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<11} {value}");
    }
}

fn as_value(
    endpoint: SocketAddrV4,
    time_ms: u64,
    answer: Option<&Answer>,
    known: Option<RangeInclusive<u64>>,
) -> serde_json::Value {
    let found = answer.and_then(|answer| answer.found.as_ref());
    let gap = answer.and_then(|answer| answer.gap);
    let holder = found.map(|Found { assignment, until_ms }| {
        let (holder, ports) = (&assignment.holder, assignment.block.ports());
        json!({
            "ue": holder.inside,
            "subscriber": holder.subscriber,
            "dnn": holder.dnn,
            "seid": format!("{:#018x}", holder.seid),
            "instance": holder.instance,
            "first_port": ports.start(),
            "last_port": ports.end(),
            "since": date(assignment.since_ms),
            "until": until_ms.map(date),
        })
    });
    json!({
        "address": endpoint.ip(),
        "port": endpoint.port(),
        "at": date(time_ms),
        "known": known.as_ref().is_some_and(|known| known.contains(&time_ms)),
        "holder": holder,
        "gap": gap.map(|Gap { from_ms, to_ms, lost }| json!({
            "from": date(from_ms),
            "to": to_ms.map(date),
            "lost": lost,
            "held_around": answer.is_some_and(|answer| answer.is_held_around_gap),
        })),
        "log": known.map(|known| json!({"from": date(*known.start()), "to": date(*known.end())})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let block = nat::pools::PortBlock {
            address: Ipv4Addr::new(192, 0, 2, 1),
            first: 1_024,
            bits: 9,
        };
        let holder = natlog::Holder {
            inside: Ipv4Addr::new(10, 45, 0, 1),
            seid: 7,
            subscriber: String::new(),
            dnn: String::new(),
            instance: String::new(),
        };
        Found {
            assignment: natlog::Assignment {
                since_ms: 0,
                vrf: VrfId(0),
                block,
                holder,
            },
            until_ms: None,
        }
    }

    #[test]
    fn what_the_log_has_goes_before_the_configuration() {
        let path = std::env::temp_dir().join(format!("sluice-show-nat-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let text = format!(
            "node: {{id: upf1.example.org}}\nn4: {{addresses: [127.0.0.8]}}\n\
             ports: [{{name: ran, driver: {{memory: {{}}}}}}, {{name: dn, driver: {{memory: {{}}}}}}]\n\
             instances:\n\
             \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\n\
             \x20 - {{name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24]}}\n\
             nat_pools:\n\
             \x20 - {{name: cgn, instance: internet, addresses: [192.0.2.0/31], \
             deterministic: {{ues: 10.46.0.0/25}}}}\n\
             nat: {{log: {{directory: {}}}}}\n",
            path.display()
        );
        let config = Config::parse(&text, "sluice.yaml").unwrap();
        let (mut log, _) = natlog::NatLog::open(&path, natlog::Settings::default(), 0, &[]).unwrap();
        log.append(&[natlog::Event::Assigned(found().assignment)])
            .unwrap();
        log.mark(9_000).unwrap();
        let at = UNIX_EPOCH + Duration::from_secs(5);
        let asked = |endpoint: &str| holder_at(&config, endpoint.parse().unwrap(), None, at, false).unwrap();
        let logged = asked("192.0.2.1:1024");
        assert!(
            logged.contains("10.45.0.1") && !logged.contains("deterministic"),
            "{logged}"
        );
        let computed = asked("192.0.2.0:1024");
        assert!(
            computed.contains("10.46.0.0") && computed.contains("if it was in use then"),
            "{computed}"
        );
        drop(log);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_is_not_certain_is_said() {
        let endpoint = "192.0.2.1:1024".parse().unwrap();
        let mut answer = Answer {
            found: None,
            gap: None,
            is_held_around_gap: false,
        };
        let told = |answer: &Answer| text(endpoint, 2_000, Some(answer), Some(0..=9_000));
        assert!(told(&answer).contains("\n  no session had it\n"));
        let known = |time_ms, answer: &Answer| {
            as_value(endpoint, time_ms, Some(answer), Some(0..=9_000))["known"].clone()
        };
        assert_eq!(
            (known(9_000, &answer), known(9_001, &answer)),
            (json!(true), json!(false))
        );
        let found = Answer {
            found: Some(found()),
            ..answer.clone()
        };
        let behind = |time_ms| text(endpoint, time_ms, Some(&found), Some(0..=9_000));
        assert!(!behind(9_000).contains("not certain"));
        assert!(behind(9_001).contains("\n  not certain behind the end of the log\n"));
        answer.gap = Some(Gap {
            from_ms: 1_000,
            to_ms: Some(3_000),
            lost: 7,
        });
        let lines = "  no session by what is in the log\n\
                     \x20 not certain 7 events are missing from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:03.000Z\n";
        assert!(told(&answer).contains(lines), "{}", told(&answer));
        answer.gap = Some(Gap {
            from_ms: 1_000,
            to_ms: None,
            lost: 0,
        });
        assert!(told(&answer).contains("events may be missing from 1970-01-01T00:00:01.000Z to now\n"));
        let value = as_value(endpoint, 2_000, Some(&answer), None);
        assert_eq!(
            value["gap"],
            json!({"from": "1970-01-01T00:00:01.000Z", "to": null, "lost": 0, "held_around": false})
        );
    }
}
