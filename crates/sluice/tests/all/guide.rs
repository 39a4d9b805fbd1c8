//! The guide is held to the program: its configurations are good, what it quotes is said, its commands are understood.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use packet::DropReason;
use pfcp::ie::Cause;
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(path: &str) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder}");
    paths
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The blocks between "```yaml" and "```".
fn yaml_blocks(page: &str) -> Vec<&str> {
    page.split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("the end of a block"))
        .collect()
}

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn check(path: &Path) {
    let output = sluice(&["check", "-c", path.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}: {output:?}", path.display());
}

#[test]
fn every_example_is_good() {
    let examples = files("examples", "yaml");
    assert!(examples.len() >= 4, "{examples:?}");
    examples.iter().for_each(|path| check(path));
}

/// Blocks of a whole file pass `sluice check`; blocks of another program's file are YAML at least.
#[test]
fn every_yaml_block_of_the_guide_is_good() {
    let mut whole = 0;
    let key = accelerator_key();
    for page in files("docs/guide", "md") {
        let text = fs::read_to_string(&page).expect("a page");
        let text = text.replace("/etc/sluice/accelerator.key", &key);
        for (number, block) in yaml_blocks(&text).into_iter().enumerate() {
            let value = yaml(block);
            if value.get("link").is_some() {
                config::AcceleratorNodeConfig::parse(block, "accel.yaml").expect("it is right");
                continue;
            }
            if value.get("node").is_none() {
                let foreign = ["smf", "sgwc", "configuration"];
                assert!(
                    foreign.iter().any(|key| value.get(key).is_some()),
                    "{}: {block}",
                    page.display()
                );
                continue;
            }
            let stem = page.file_stem().expect("a name").to_string_lossy();
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-{stem}-{number}.yaml"));
            fs::write(&file, block).expect("a file");
            check(&file);
            whole += 1;
        }
    }
    assert!(whole >= 1);
}

/// `part` laid over `whole`: mappings field by field, lists of what has a name by name, all else in its place.
fn lay_over(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                lay_over(whole.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(whole), Value::Array(part)) if part.iter().all(|one| one.get("name").is_some()) => {
            for one in part {
                match whole.iter_mut().find(|has| has["name"] == one["name"]) {
                    Some(has) => lay_over(has, one),
                    None => whole.push(one),
                }
            }
        }
        (whole, part) => *whole = part,
    }
}

/// The indented blocks of a page, without their indentation.
fn indented_blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(code) => *blocks.last_mut().expect("a block") += &format!("{code}\n"),
            None if line.is_empty() => *blocks.last_mut().expect("a block") += "\n",
            None => blocks.push(String::new()),
        }
    }
    blocks
}

/// A CRL that revokes nothing.
fn revocation_list() -> String {
    let params = rcgen::CertificateParams::new([]).expect("no names");
    let authority = rcgen::Issuer::new(params, rcgen::KeyPair::generate().expect("a key"));
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2024, 1, 1),
        next_update: rcgen::date_time_ymd(2200, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let signed = list.signed_by(&authority).expect("it may sign");
    signed.pem().expect("PEM")
}

/// A folder with the certificates, the key and the CRL that the guide names: `sluice check` reads them.
fn certificates() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide-tls");
    let made = rcgen::generate_simple_self_signed(["upf.example".to_owned()]).expect("a certificate");
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["chain.pem", "clients.pem"] {
        fs::write(folder.join(name), made.cert.pem()).expect("a file");
    }
    fs::write(folder.join("revoked.pem"), revocation_list()).expect("a file");
    let key = folder.join("key.pem");
    fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    folder
}

/// Blocks that begin with a field of the whole configuration are parts of one: laid over the page's whole file or the
/// example, or in the place of what these have there, they are good.
#[test]
fn every_part_of_a_configuration_in_the_guide_is_good() {
    let example = Example::read("sluice.yaml").0;
    let commented = read("examples/sluice.yaml");
    let certificates = certificates().display().to_string();
    let is_field = |line: &str| {
        let Some((key, rest)) = line.split_once(':') else {
            return false;
        };
        let is_word = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_' || c == '4');
        let is_ours = commented.contains(&format!("\n{key}:")) || commented.contains(&format!("\n# {key}:"));
        is_word && is_ours && (rest.is_empty() || rest.starts_with(' '))
    };
    let (domain_lists, key) = (domain_lists(), accelerator_key());
    write_application_files();
    let mut parts = 0;
    for page in files("docs/guide", "md") {
        let text = fs::read_to_string(&page).expect("a page");
        let text = text.replace("/etc/sluice/accelerator.key", &key);
        // The page's own whole file, if it has one.
        let own = yaml_blocks(&text)
            .into_iter()
            .map(yaml)
            .filter(|value| value.get("node").is_some());
        let bases: Vec<Value> = own.chain([example.clone()]).collect();
        let text = text.replace("/etc/sluice/tls", &certificates);
        let text = text.replace("/var/lib/sluice/lists", &domain_lists);
        let blocks = indented_blocks(&text);
        for (number, block) in blocks.iter().map(|block| block.trim()).enumerate() {
            if !block.lines().next().is_some_and(is_field) {
                continue;
            }
            let stem = page.file_stem().expect("a name").to_string_lossy();
            let file =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-part-{stem}-{number}.yaml"));
            let mut said = String::new();
            let mut wholes = bases.iter().flat_map(|base| {
                let (mut laid_over, mut replaced) = (base.clone(), base.clone());
                lay_over(&mut laid_over, yaml(block));
                let part = yaml(block);
                for (key, value) in part.as_object().expect("a mapping") {
                    replaced[key.as_str()] = value.clone();
                }
                [laid_over, replaced]
            });
            let is_good = wholes.any(|whole| {
                fs::write(&file, serde_json::to_string_pretty(&whole).expect("JSON")).expect("a file");
                let output = sluice(&["check", "-c", file.to_str().expect("UTF-8")]);
                said += &String::from_utf8_lossy(&output.stderr);
                output.status.success()
            });
            assert!(is_good, "{}:\n{block}\n{said}", page.display());
            parts += 1;
        }
    }
    assert!(parts > 15, "{parts}");
}

/// A file with a key of a link to an accelerator.
fn accelerator_key() -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide-accelerator.key");
    fs::write(&file, "0123456789abcdef".repeat(4)).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    file.display().to_string()
}

/// A folder with the domain lists that the guide names.
fn domain_lists() -> String {
    let folder = format!("{}/guide-lists", env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["adult-2026-11", "gambling-2026-11", "betting-2026-11"] {
        fs::write(format!("{folder}/{name}"), "domain.example\n").expect("a file");
    }
    folder
}

/// Files with applications beside the configurations: the guide's list, and one more that it names.
fn write_application_files() {
    let page = read("docs/guide/applications.md");
    let mut blocks = indented_blocks(&page).into_iter();
    let list = blocks.find(|block| block.trim().starts_with("- name:"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder.join("applications")).expect("a folder");
    fs::write(folder.join("applications/guide.yaml"), list.expect("a list")).expect("a file");
    fs::write(
        folder.join("shops.yaml"),
        "- {name: shops, hosts: [shop.example]}\n",
    )
    .expect("a file");
}

/// An example as values.
struct Example(Value);

impl Example {
    fn read(name: &str) -> Self {
        Self(yaml(&read(&format!("examples/{name}"))))
    }

    fn instance(&self, role: &str) -> &Value {
        let instances = self.0["instances"].as_array().expect("instances");
        let mut fitting = instances.iter().filter(|one| {
            let roles = one["roles"].as_array().expect("roles");
            roles.iter().any(|has| has == role)
        });
        fitting
            .next()
            .unwrap_or_else(|| panic!("an instance with role {role}"))
    }

    /// The instance's IPv4 address and the first three octets of it, as its prefix is a /24.
    fn link(&self, role: &str) -> (String, String) {
        let address = self.instance(role)["addresses"][0].as_str().expect("an address");
        let (address, length) = address.split_once('/').expect("a prefix length");
        assert_eq!(length, "24");
        (address.into(), network(address))
    }

    fn assert_is_shown_as(&self, reported: &Value) {
        assert_eq!(&self.0["node"]["id"], reported);
        assert_eq!(&self.0["n4"]["addresses"][0], reported);
    }
}

fn network(address: &str) -> String {
    address.rsplit_once('.').expect("IPv4").0.into()
}

/// The prefix of an entry of `n4.peers`, which is the prefix alone or has more.
fn prefix(peers: &Value) -> &str {
    text(peers.get("prefix").unwrap_or(peers))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}"))
}

#[test]
fn the_configuration_of_open5gs_fits_the_examples() {
    let page = read("docs/guide/open5gs.md");
    let blocks: Vec<Value> = yaml_blocks(&page).into_iter().map(yaml).collect();
    let [fiveg, fourg] = &blocks[..] else {
        panic!("smf.yaml and sgwc.yaml: {blocks:?}");
    };
    let (smf, sgwc) = (&fiveg["smf"], &fourg["sgwc"]);
    for name in ["open5gs.yaml", "open5gs-4g.yaml"] {
        let example = Example::read(name);
        example.assert_is_shown_as(&smf["pfcp"]["client"]["upf"][0]["address"]);
        let (own, link) = example.link("n4u");
        let gtpu = text(&smf["gtpu"]["server"][0]["address"]);
        assert_eq!(network(gtpu), link, "on the link of N4-u");
        assert_ne!(gtpu, own);
        // The network instance is the DNN.
        assert_eq!(example.instance("n6")["name"], "internet");
        let peers = prefix(&example.0["n4"]["peers"][0]);
        assert_eq!(
            network(text(&smf["pfcp"]["server"][0]["address"])),
            network(peers)
        );
        for role in ["n3", "n6"] {
            assert!(page.contains(&example.link(role).0), "{role}");
        }
    }
    let lte = Example::read("open5gs-4g.yaml");
    lte.assert_is_shown_as(&sgwc["pfcp"]["client"]["sgwu"][0]["address"]);
    assert_eq!(
        network(text(&sgwc["pfcp"]["server"][0]["address"])),
        network(prefix(&lte.0["n4"]["peers"][0]))
    );
    assert_eq!(lte.instance("n3")["roles"], serde_json::json!(["n3", "n9"]));
}

#[test]
fn the_configuration_of_free5gc_fits_the_example() {
    let page = read("docs/guide/free5gc.md");
    let blocks = yaml_blocks(&page);
    let smf = &yaml(blocks[0])["configuration"];
    let upf = &smf["userplaneInformation"]["upNodes"]["UPF"];
    let example = Example::read("free5gc.yaml");
    example.assert_is_shown_as(&upf["nodeID"]);
    example.assert_is_shown_as(&upf["addr"]);
    let n3 = &upf["interfaces"][0];
    assert_eq!(text(&n3["endpoints"][0]), example.link("n3").0);
    let data_network = &example.instance("n6")["name"];
    assert_eq!(&n3["networkInstances"][0], data_network);
    assert_eq!(
        &upf["sNssaiUpfInfos"][0]["dnnUpfInfoList"][0]["dnn"],
        data_network
    );
    let peer = &example.0["n4"]["peers"][0];
    assert_eq!(
        network(text(&smf["pfcp"]["externalAddr"])),
        network(text(&peer["prefix"]))
    );
    assert_eq!(peer["usage_information"], false);
    assert_eq!(example.0["n4"]["accept_cp_f_teids"], true);
}

/// The cells of a row.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// The rows of each table of `page` whose first column has this head.
fn rows<'p>(page: &'p str, head: &str) -> Vec<Vec<&'p str>> {
    let mut lines = page.lines();
    let mut rows = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with(&format!("| {head} |")) {
            let table = lines.by_ref().skip(1).take_while(|row| row.starts_with('|'));
            rows.extend(table.map(cells));
        }
    }
    assert!(!rows.is_empty(), "a table with {head}");
    rows
}

/// The texts in backticks in `words`, in order.
fn spans(words: &str) -> impl Iterator<Item = &str> {
    words.split('`').skip(1).step_by(2)
}

const TROUBLES: &str = "docs/guide/troubleshooting.md";

#[test]
fn the_drop_reasons_of_the_guide_are_there() {
    let page = read(TROUBLES);
    let reported = rows(&page, "Drop reason");
    assert!(reported.len() >= 20);
    for row in &reported {
        for reason in spans(row[0]) {
            assert!(DropReason::from_label(reason).is_some(), "{reason}");
        }
    }
    let elsewhere = rows(&page, "How to see it");
    for cell in elsewhere
        .iter()
        .map(|row| row[0])
        .filter(|cell| cell.starts_with("Drop reason"))
    {
        let reason = spans(cell).next().expect("a reason");
        assert!(DropReason::from_label(reason).is_some(), "{reason}");
    }
    let quoted = page
        .lines()
        .find_map(|line| line.trim().strip_prefix("-> DROPPED   "))
        .expect("a drop");
    let reason = DropReason::from_label(quoted.split(':').next().expect("a label")).expect("a reason");
    assert_eq!(
        quoted,
        format!("{reason}: {} [{}]", reason.explain(), reason.clause())
    );
}

#[test]
fn the_causes_of_the_guide_have_these_names() {
    let page = read(TROUBLES);
    let mut known = BTreeSet::new();
    for row in rows(&page, "Cause") {
        let cause = Cause::new(row[0].parse().expect("a number")).expect("a cause");
        assert_eq!(row[1], cause.name());
        assert!(known.insert(cause.value()), "{}", row[0]);
    }
    assert!([71, 72, 73, 66, 75, 77].iter().all(|cause| known.contains(cause)));
}

/// Words that the program writes stand in its source.
#[test]
fn the_counts_and_log_lines_of_the_guide_are_there() {
    let page = read(TROUBLES);
    let counts = read("crates/oam/src/views/n4.rs");
    for count in [
        "datagrams",
        "outside_peers",
        "unauthorised",
        "unknown_source_over_rate",
        "unverified",
        "throttled",
        "requests_unanswered",
        "reports_refused",
        "reports_unreadable",
        "usage_unanswered",
        "usage_refused",
    ] {
        assert!(page.contains(&format!("`{count}`")), "{count} is on the page");
        assert!(counts.contains(&format!("(\"{count}\"")), "{count} is counted");
    }
    let mut sources = String::new();
    for folder in [
        "sluice",
        "runtime",
        "oam",
        "ports",
        "upf",
        "config",
        "dpdk",
        "transport",
    ] {
        collect(
            &Path::new(ROOT).join(format!("crates/{folder}/src")),
            &mut sources,
        );
    }
    let lines = rows(&page, "The log says");
    assert!(lines.len() >= 10);
    for row in lines {
        for words in spans(row[0]) {
            let words = words.strip_prefix("why=").unwrap_or(words).trim_matches('"');
            assert!(sources.contains(words), "{words}");
        }
    }
}

/// Names with an underscore, and fields of the configuration, that the page names.
#[test]
fn the_names_of_the_guide_are_there() {
    let (page, example) = (read(TROUBLES), read("examples/sluice.yaml"));
    let mut sources = String::new();
    for folder in ["sluice", "runtime", "oam", "ports", "upf", "config", "worker"] {
        collect(
            &Path::new(ROOT).join(format!("crates/{folder}/src")),
            &mut sources,
        );
    }
    let is_name = |span: &str| {
        span.chars()
            .all(|c| c.is_ascii_lowercase() || "_.*0123456789".contains(c))
    };
    let mut fields = 0;
    for span in page
        .lines()
        .filter(|line| !line.starts_with("    "))
        .flat_map(spans)
    {
        let span = span.split(": ").next().expect("a name");
        let is_foreign = span.starts_with("smf.") || span.ends_with(".yaml") || span.ends_with(".md");
        if !is_name(span) || is_foreign {
            continue;
        }
        if let Some((_, field)) = span.rsplit_once('.') {
            assert!(example.contains(&format!("{field}:")), "{span} is no field");
            fields += 1;
        } else if span.contains('_') {
            let is_known = DropReason::from_label(span).is_some() || sources.contains(span);
            assert!(is_known, "{span}");
        }
    }
    assert!(fields > 20);
    for words in [
        "another process of Sluice has this interface",
        "the kernel refuses an nf_tables ingress drop",
        "no daemon is at",
        "this user may not use",
        "no RSS (1 queue)",
        "RSS on outer headers only",
    ] {
        assert!(page.contains(words) && sources.contains(words), "{words}");
    }
}

/// The Rust sources below `folder`, one behind the other.
fn collect(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// A command line of the guide, as words; place holders are given values.
fn arguments(line: &str) -> Vec<String> {
    let line = line.split(" #").next().expect("the command");
    let mut words = Vec::new();
    for (place, part) in line.split('"').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    for word in &mut words {
        *word = match word.as_str() {
            "ADDRESS" => "10.45.0.2".into(),
            "SEID" | "TEID" => "0x1".into(),
            _ => std::mem::take(word),
        };
    }
    words
}

/// Each command of these pages is understood: `--help` behind it ends it before it does anything.
#[test]
fn the_commands_of_the_guide_are_understood() {
    let mut reported = 0;
    for name in ["open5gs.md", "free5gc.md", "troubleshooting.md"] {
        let page = read(&format!("docs/guide/{name}"));
        let blocks = page.lines().filter_map(|line| line.strip_prefix("    "));
        let blocks = blocks.map(|line| line.strip_prefix("$ ").unwrap_or(line));
        let prose = page
            .lines()
            .filter(|line| !line.starts_with("    "))
            .flat_map(spans);
        let commands = blocks
            .chain(prose)
            .filter_map(|line| line.strip_prefix("sluice "));
        for command in commands {
            let mut words = arguments(command);
            // Of commands that are named as such, without what they need.
            words.push("--help".into());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = sluice(&words);
            assert!(output.status.success(), "{name}: sluice {command}: {output:?}");
            reported += 1;
        }
    }
    assert!(reported > 20);
}

#[test]
fn the_index_of_the_guide_has_every_page() {
    let index = read("docs/guide/index.md");
    for page in files("docs/guide", "md") {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(
            name == "index.md" || index.contains(&format!("({name})")),
            "{name}"
        );
    }
}
