//! `sluice init`: a first configuration, of one N3 and one N6, from options and from answers on a terminal.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::{CallerRole, Config};
use oam::rest::Access;

/// The group of the package, whose members may use the API.
const GROUP: &str = "sluice";

/// `sluice init`.
#[derive(Args, Clone, Debug)]
pub struct InitArguments {
    /// The file to write; `-` is standard output.
    #[arg(short, long, default_value = "/etc/sluice/sluice.yaml")]
    output: PathBuf,
    /// Replace the file if there is one.
    #[arg(long)]
    force: bool,
    /// N3, towards gNBs: an interface of the kernel, or the PCI address of a NIC that is bound to vfio-pci.
    #[arg(long, value_name = "INTERFACE")]
    n3: Option<String>,
    /// Our address there with the prefix length of the link, as 10.100.0.1/24; one of each family.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address_and_length)]
    n3_address: Vec<AddressAndLength>,
    /// The router to gNBs that are not on that link; one of each family.
    #[arg(long, value_name = "ADDRESS")]
    n3_gateway: Vec<IpAddr>,
    /// N6, towards the data network: as --n3.
    #[arg(long, value_name = "INTERFACE")]
    n6: Option<String>,
    /// Our address there: as --n3-address.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address_and_length)]
    n6_address: Vec<AddressAndLength>,
    /// The router to the data network; one of each family.
    #[arg(long, value_name = "ADDRESS")]
    gateway: Vec<IpAddr>,
    /// Our address for PFCP, which is one of the host; one of each family.
    #[arg(long, value_name = "ADDRESS")]
    n4_address: Vec<IpAddr>,
    /// The SMFs that may speak PFCP: an address or a prefix.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    smf: Vec<AddressAndLength>,
    /// The Node ID: an address or a domain name; else the first address for PFCP.
    #[arg(long, value_name = "ID")]
    node_id: Option<String>,
    /// The network instance of N6, as SMFs name it: mostly the DNN.
    #[arg(long, value_name = "NAME")]
    dnn: Option<String>,
    /// The network instance of N3, as SMFs name it.
    #[arg(long, value_name = "NAME", default_value = "access")]
    access: String,
    /// Prefixes of UE addresses, where the SMF leaves their choice to the UPF.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    ue_pool: Vec<AddressAndLength>,
    /// How kernel interfaces are driven.
    #[arg(long, default_value = "af-packet")]
    driver: KernelDriver,
    /// Workers; each takes a core.
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Sessions that memory is allocated for.
    #[arg(long, default_value_t = 10_000)]
    sessions: u32,
    /// Write usage records, into this directory.
    #[arg(long, value_name = "DIRECTORY", num_args = 0..=1, default_missing_value = "/var/lib/sluice/records")]
    records: Option<PathBuf>,
}

/// How interfaces of the kernel are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KernelDriver {
    /// Packet sockets: every interface.
    AfPacket,
    /// AF_XDP: faster, with drivers that have it.
    AfXdp,
}

/// An address with the length of its link's prefix, or a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressAndLength {
    address: IpAddr,
    length: u8,
}

impl std::fmt::Display for AddressAndLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

const fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn address_and_length(text: &str) -> Result<AddressAndLength, String> {
    if text.contains('/') {
        return prefix(text);
    }
    Err("must be an address with the prefix length of its link, as 10.100.0.1/24".into())
}

fn prefix(text: &str) -> Result<AddressAndLength, String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let bad = || "must be an address, or an address, `/` and a prefix length".to_owned();
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let most = longest(address);
    let length = length.map_or(Ok(most), |length| length.parse().map_err(|_| bad()))?;
    if length > most {
        return Err(format!("the prefix length is {most} at most"));
    }
    Ok(AddressAndLength { address, length })
}

/// Writes a configuration that [`Config::parse`] accepts. What no option gives is asked for if standard input is a
/// terminal. Exit status 2 for a value that cannot be or is missing, 1 when the file exists or cannot be written.
#[must_use]
pub fn init(arguments: &InitArguments) -> ExitCode {
    let to_file = arguments.output.as_os_str() != "-";
    // Before questions that would be answered in vain.
    if to_file && !arguments.force && arguments.output.exists() {
        eprintln!("init: {} exists; --force replaces it", arguments.output.display());
        return ExitCode::from(RUN_ERROR);
    }
    let stdin = io::stdin();
    let answers = stdin.is_terminal().then(|| stdin.lock());
    let text = match Wanted::of(arguments.clone(), answers) {
        Ok(wanted) => wanted.text(Access::group(GROUP, CallerRole::Operator).is_ok()),
        Err(error) => {
            eprintln!("init: {error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    if let Err(error) = Config::parse(&text, "the configuration of these values") {
        eprintln!("{error}");
        return ExitCode::from(CONFIGURATION_ERROR);
    }
    if !to_file {
        print!("{text}");
        return ExitCode::SUCCESS;
    }
    if let Err(error) = write(&arguments.output, &text, arguments.force) {
        eprintln!("init: {}: {error}", arguments.output.display());
        return ExitCode::from(RUN_ERROR);
    }
    let path = arguments.output.display();
    println!(
        "{path} is written. Next: `sluice check --ports -c {path}` opens its ports, `sluice run -c {path}` runs it"
    );
    ExitCode::SUCCESS
}

/// Writes the file whole or not at all; over another only if that is wanted. It belongs to whom its directory belongs:
/// that of the package is the daemon's, which replaces the file with each commit.
fn write(path: &Path, text: &str, replace: bool) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let placed = written
        .and_then(|()| give_to_owner_of_directory(&file, &new))
        .and_then(|()| {
            if replace {
                fs::rename(&new, path)
            } else {
                // Fails where there is a file by now.
                fs::hard_link(&new, path).and_then(|()| fs::remove_file(&new))
            }
        });
    placed.inspect_err(|_| drop(fs::remove_file(&new)))
}

fn give_to_owner_of_directory(file: &File, path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = fs::metadata(directory.unwrap_or(Path::new(".")))?;
    // Only root gives files away. A directory that all users share says nothing.
    if file.metadata()?.uid() != 0 || directory.mode() & 0o1000 != 0 {
        return Ok(());
    }
    fchown(file, Some(directory.uid()), Some(directory.gid()))
}

/// What the file is to say.
struct Wanted {
    arguments: InitArguments,
    n3: String,
    n6: String,
    dnn: String,
    node_id: String,
}

/// Asks for what options have not given.
struct Questions<A> {
    /// `None`: there is no terminal.
    answers: Option<A>,
    /// Options that would have been needed.
    missing: Vec<&'static str>,
}

impl<A: BufRead> Questions<A> {
    /// The first answer that `read` accepts, or `usual` where the line is empty and there is one.
    fn ask<T>(
        &mut self,
        option: &'static str,
        question: &str,
        usual: Option<T>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(answers) = &mut self.answers else {
            if usual.is_none() {
                self.missing.push(option);
            }
            return Ok(usual);
        };
        loop {
            eprint!("{question}: ");
            let mut line = String::new();
            let octets = answers.read_line(&mut line).map_err(|error| error.to_string())?;
            if octets == 0 {
                return Err("the answers ended".into());
            }
            match line.trim() {
                "" if usual.is_some() => return Ok(usual),
                "" => eprintln!("  a value is needed"),
                answer => match read(answer) {
                    Ok(value) => return Ok(Some(value)),
                    Err(why) => eprintln!("  {why}"),
                },
            }
        }
    }

    /// All words of an answer; none is an answer where `may_be_none`.
    fn ask_list<T>(
        &mut self,
        given: Vec<T>,
        option: &'static str,
        question: &str,
        may_be_none: bool,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        if !given.is_empty() {
            return Ok(given);
        }
        let words = |line: &str| -> Result<Vec<T>, String> {
            let words = line.split([' ', ',']).filter(|word| !word.is_empty());
            words.map(&read).collect()
        };
        let asked = self.ask(option, question, may_be_none.then(Vec::new), words)?;
        Ok(asked.unwrap_or_default())
    }
}

fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no IP address"))
}

fn interface(text: &str) -> Result<String, String> {
    if is_pci(text) || Path::new("/sys/class/net").join(text).exists() {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is no interface of this host; PCI addresses are as 0000:3b:00.0"
    ))
}

fn is_pci(text: &str) -> bool {
    let form = "hhhh:hh:hh.h";
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(c, form)| match form {
            'h' => c.is_ascii_hexdigit(),
            _ => c == form,
        })
}

impl Wanted {
    fn of(mut arguments: InitArguments, answers: Option<impl BufRead>) -> Result<Self, String> {
        let mut questions = Questions {
            answers,
            missing: Vec::new(),
        };
        let take = std::mem::take::<Vec<_>>;
        let text = |answer: &str| Ok(answer.to_owned());
        let n3 = match arguments.n3.take() {
            Some(n3) => Some(n3),
            None => questions.ask("--n3", "Interface of N3, towards gNBs", None, interface)?,
        };
        arguments.n3_address = questions.ask_list(
            take(&mut arguments.n3_address),
            "--n3-address",
            "Our address there, with the prefix length of the link (10.100.0.1/24)",
            false,
            address_and_length,
        )?;
        arguments.n3_gateway = questions.ask_list(
            std::mem::take(&mut arguments.n3_gateway),
            "--n3-gateway",
            "Router to gNBs on other links (empty: none)",
            true,
            ip,
        )?;
        let n6 = match arguments.n6.take() {
            Some(n6) => Some(n6),
            None => questions.ask(
                "--n6",
                "Interface of N6, towards the data network",
                None,
                interface,
            )?,
        };
        arguments.n6_address = questions.ask_list(
            take(&mut arguments.n6_address),
            "--n6-address",
            "Our address there, with the prefix length of the link",
            false,
            address_and_length,
        )?;
        arguments.gateway = questions.ask_list(
            std::mem::take(&mut arguments.gateway),
            "--gateway",
            "Router to the data network (empty: none)",
            true,
            ip,
        )?;
        arguments.n4_address = questions.ask_list(
            std::mem::take(&mut arguments.n4_address),
            "--n4-address",
            "Our address for PFCP, one of this host",
            false,
            ip,
        )?;
        arguments.smf = questions.ask_list(
            take(&mut arguments.smf),
            "--smf",
            "Addresses or prefixes of the SMFs",
            false,
            prefix,
        )?;
        let dnn = match arguments.dnn.take() {
            Some(dnn) => Some(dnn),
            None => questions.ask("--dnn", "DNN (internet)", Some("internet".into()), text)?,
        };
        if !questions.missing.is_empty() {
            return Err(format!(
                "no terminal to ask at: give {}",
                questions.missing.join(", ")
            ));
        }
        let first = arguments.n4_address.first().map(ToString::to_string);
        Ok(Self {
            node_id: arguments.node_id.take().or(first).unwrap_or_default(),
            n3: n3.unwrap_or_default(),
            n6: n6.unwrap_or_default(),
            dnn: dnn.unwrap_or_default(),
            arguments,
        })
    }

    /// The file. What people named is in quotes, whatever it is.
    fn text(&self, has_group: bool) -> String {
        let Self { arguments, .. } = self;
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let mut text = String::new();
        let _ = write!(
            text,
            "# Made by `sluice init`. All fields: /usr/share/doc/sluice/examples/sluice.yaml.\n\
             # `sluice check -c FILE` says what this makes, or the first mistake.\n\n\
             node:\n  id: {}                # Node ID towards SMFs\n\n\
             n4:                             # PFCP\n  addresses: [{}]\n  peers: [{}]         # who may speak PFCP\n\n\
             workers:\n  count: {}                      # each takes a core\n\n\
             limits:                         # memory is allocated for these at start\n  sessions: {}\n\n\
             control:                        # the API of `sluice show`\n  socket: /run/sluice/control.sock\n  \
             versions: /var/lib/sluice/versions   # what this file was (`sluice config versions`)\n",
            quoted(&self.node_id),
            list(&arguments.n4_address),
            list(&arguments.smf),
            arguments.workers,
            arguments.sessions,
        );
        let comment = if has_group { "" } else { "# " };
        let _ = writeln!(
            text,
            "  {comment}group: {GROUP}                 # its members have the operator's rights\n  \
             {comment}group_role: operator"
        );
        text += "\nlog:\n  level: info\n  # format: json                # an object a line\n\n";
        match &arguments.records {
            Some(directory) => {
                let directory = quoted(&directory.to_string_lossy());
                let _ = writeln!(
                    text,
                    "records:                        # usage records\n  directory: {directory}\n"
                );
            }
            None => {
                text += "# records:                      # usage records\n#   directory: /var/lib/sluice/records\n\n"
            }
        }
        let _ = write!(
            text,
            "ports:\n  - name: n3\n    driver: {}\n  - name: n6\n    driver: {}\n\n\
             instances:                      # network instances, as SMFs name them\n",
            driver(&self.n3, arguments.driver),
            driver(&self.n6, arguments.driver),
        );
        self.add_instance(&mut text, &quoted(&arguments.access), "n3");
        self.add_instance(&mut text, &quoted(&self.dnn), "n6");
        if !arguments.ue_pool.is_empty() {
            let dnn = quoted(&self.dnn);
            let _ = writeln!(
                text,
                "\npools:                          # UE addresses that the UPF chooses\n  - name: {dnn}\n    instance: {dnn}"
            );
            let (ipv4, ipv6): (Vec<_>, Vec<_>) = arguments
                .ue_pool
                .iter()
                .copied()
                .partition(|pool| pool.address.is_ipv4());
            if !ipv4.is_empty() {
                let _ = writeln!(text, "    ipv4: [{}]", list(&ipv4));
            }
            let prefixes: Vec<_> = ipv6
                .iter()
                .map(|prefix| format!("{{prefix: \"{prefix}\"}}"))
                .collect();
            if !prefixes.is_empty() {
                let _ = writeln!(text, "    ipv6: [{}]", prefixes.join(", "));
            }
        }
        text
    }

    /// The instance of the port `port`, which has the name of its role.
    fn add_instance(&self, text: &mut String, name: &str, port: &str) {
        let Self { arguments, .. } = self;
        let (addresses, gateways) = match port {
            "n3" => (&arguments.n3_address, &arguments.n3_gateway),
            _ => (&arguments.n6_address, &arguments.gateway),
        };
        let addresses = list(addresses);
        let _ = writeln!(
            text,
            "  - name: {name}\n    roles: [{port}]\n    port: {port}\n    addresses: [{addresses}]"
        );
        if port == "n3" && !gateways.is_empty() {
            // Both sides have a default route.
            text.push_str("    vrf: 1                        # a routing table of its own\n");
        }
        if !gateways.is_empty() {
            text.push_str("    routes:\n");
        }
        for gateway in gateways {
            let everything = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let _ = writeln!(text, "      - {{to: \"{everything}\", via: \"{gateway}\"}}");
        }
    }
}

fn list<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values
        .iter()
        .map(|value| format!("\"{}\"", value.to_string()))
        .collect();
    values.join(", ")
}

fn driver(interface: &str, kernel: KernelDriver) -> String {
    let interface_quoted = serde_json::to_string(interface).unwrap_or_default();
    match kernel {
        _ if is_pci(interface) => format!("{{pci: {{address: {interface_quoted}}}}}"),
        KernelDriver::AfPacket => format!("{{af_packet: {{interface: {interface_quoted}}}}}"),
        KernelDriver::AfXdp => format!("{{af_xdp: {{interface: {interface_quoted}}}}}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        init: InitArguments,
    }

    const ENOUGH: &str = "init --n3 ens1 --n3-address 10.100.0.1/24 --n6 0000:3b:00.1 --n6-address 10.200.0.1/24 \
                          --n4-address 127.0.0.8 --smf 127.0.0.0/8";

    fn arguments(line: &str) -> InitArguments {
        Line::try_parse_from(line.split_whitespace()).unwrap().init
    }

    fn wanted(line: &str, answers: Option<&str>) -> Result<Wanted, String> {
        Wanted::of(arguments(line), answers.map(str::as_bytes))
    }

    fn parsed(wanted: &Wanted) -> Config {
        let text = wanted.text(true);
        Config::parse(&text, "x").unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn options_make_a_configuration_that_is_checked() {
        let config = parsed(&wanted(ENOUGH, None).unwrap());
        assert_eq!(config.node.id.0.to_string(), "127.0.0.8");
        assert_eq!(config.n4.peers[0].value.prefix.to_string(), "127.0.0.0/8");
        assert_eq!(config.ports[0].driver.as_ref().unwrap().interface(), Some("ens1"));
        assert_eq!(config.ports[1].driver.as_ref().unwrap().interface(), None);
        assert_eq!(config.instances[1].name.value, "internet");
        assert!(
            config.records.is_none() && config.instances.iter().all(|instance| instance.routes.is_empty())
        );

        let more = format!(
            "{ENOUGH} --n3-address 2001:db8:3::1/64 --n3-gateway 10.100.0.254 --gateway 10.200.0.254 --gateway fe80::1 \
             --n6-address 2001:db8:6::1/64 --node-id upf.example.org --dnn ims --access n3.example --ue-pool \
             10.45.0.0/16 --ue-pool 2001:db8:1000::/36 --driver af-xdp --workers 2 --sessions 5000 --records"
        );
        let config = parsed(&wanted(&more, None).unwrap());
        assert_eq!(config.node.id.0.to_string(), "upf.example.org");
        assert_eq!(config.instances[0].addresses.len(), 2);
        assert_eq!(
            (config.instances[0].routes.len(), config.instances[1].routes.len()),
            (1, 2)
        );
        assert_eq!(config.instances[1].name.value, "ims");
        assert_eq!(
            (config.workers.count.value(), config.limits.sessions.value()),
            (2, 5_000)
        );
        assert_eq!(config.pools[0].ipv6.len(), 1);
        assert_eq!(
            config.records.unwrap().directory.value,
            Path::new("/var/lib/sluice/records")
        );
    }

    #[test]
    fn names_cannot_change_what_the_file_means() {
        let mut arguments = arguments(ENOUGH);
        arguments.dnn = Some("x\"\nn4: {addresses: [1.2.3.4]}\n# é: {".into());
        let text = Wanted::of(arguments, None::<&[u8]>).unwrap().text(true);
        // It may not be allowed as a name, but it is one.
        match Config::parse(&text, "x") {
            Ok(config) => assert_eq!(config.n4.addresses[0].value.to_string(), "127.0.0.8"),
            Err(error) => assert!(error.to_string().contains("name"), "{error}"),
        }
    }

    #[test]
    fn what_is_missing_is_asked_for_until_it_is_good() {
        let answers = "nosuch0\n0000:3b:00.0\n10.100.0.1\n10.100.0.1/33\n10.100.0.1/24\n\n0000:3b:00.1\n\n10.200.0.1/24\n10.200.0.254\n\
                       127.0.0.8\n127.0.0.1, 10.0.0.0/8\n\n";
        let config = parsed(&wanted("init", Some(answers)).unwrap());
        assert_eq!(config.n4.peers.len(), 2);
        assert_eq!(config.instances[0].routes.len(), 0);
        assert_eq!(config.instances[1].routes.len(), 1);
        assert_eq!(config.instances[1].name.value, "internet");
        let ended = wanted("init --n3 lo", Some("10.100.0.1/24\n")).err().unwrap();
        assert_eq!(ended, "the answers ended");
    }

    #[test]
    fn without_a_terminal_the_missing_options_are_named() {
        let error = wanted("init --n3 lo --smf 10.0.0.1", None).err().unwrap();
        assert_eq!(
            error,
            "no terminal to ask at: give --n3-address, --n6, --n6-address, --n4-address"
        );
    }

    #[test]
    fn a_file_is_replaced_only_by_force() {
        let path = std::env::temp_dir().join(format!("sluice-init-{}.yaml", std::process::id()));
        write(&path, "one", false).unwrap();
        assert_eq!(
            write(&path, "two", false).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        write(&path, "two", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        fs::remove_file(path).unwrap();
    }
}
