//! Applications and hosts of rulebases.

use std::fs;
use std::path::PathBuf;

use super::{GOOD, refusal};
use crate::{ApplicationFiles, Config, Differences};

const RULES: &str = "\
predefined:
  applications:
    - {name: video, hosts: ['*.video.example', cdn.example/video]}
    - {name: dns, flows: [permit out 17 from any 53 to assigned]}
    - {name: both, hosts: [both.example], flows: [permit out ip from 192.0.2.0/24 to assigned]}
  rulebases:
    - name: base
      rules:
        - {precedence: 1, applications: [video, dns]}
        - {precedence: 2, hosts: [shop.example], applications: [both], tos: [184, 252]}
        - {precedence: 3, hosts: [www.example], flows: [permit out 6 from 198.51.100.0/24 to assigned]}
        - {precedence: 9}
";

fn config(rules: &str) -> Config {
    Config::parse(&format!("{GOOD}{rules}"), "sluice.yaml").unwrap()
}

#[test]
fn a_rule_stands_for_the_hosts_and_for_the_flows_of_its_applications() {
    let config = config(RULES);
    let predefined = config.predefined();
    let rules: Vec<_> = predefined
        .rulebase(b"base")
        .unwrap()
        .rules()
        .iter()
        .map(|rule| {
            let hosts: Vec<_> = rule.detection.hosts.iter().map(ToString::to_string).collect();
            (rule.precedence.0, hosts.join(" "), rule.filters.len())
        })
        .collect();
    let line = |precedence, hosts: &str, filters| (precedence, hosts.to_owned(), filters);
    assert_eq!(
        rules,
        [
            line(1, "*.video.example cdn.example/video", 0),
            line(1, "", 1),
            line(2, "shop.example both.example", 1),
            line(2, "", 1),
            line(3, "www.example", 1),
            line(9, "", 0),
        ]
    );
    assert!(config.inspects() && config.unreachable_hosts().is_empty());
    let off = format!("{RULES}\ninspection: {{ flows: 0 }}\n");
    assert!(!self::config(&off).inspects());
}

#[test]
fn pdrs_may_name_the_applications() {
    let config = config(RULES);
    let applications = config.applications();
    let all: Vec<_> = applications
        .iter()
        .map(|one| {
            let names = one.named.all().iter().map(ToString::to_string);
            (
                one.id.escape_ascii().to_string(),
                one.flows.len(),
                names.collect::<Vec<_>>().join(","),
            )
        })
        .collect();
    let line = |id: &str, flows, names: &str| (id.to_owned(), flows, names.to_owned());
    assert_eq!(
        all,
        [
            line("video", 0, "url *.video.example\nurl cdn.example/video\n"),
            line("dns", 1, ""),
            line("both", 1, "url both.example\n"),
        ]
    );
}

#[test]
fn applications_that_contradict_something_are_refused() {
    for (from, to, part) in [
        (
            "'*.video.example'",
            "'*.192.0.2.1'",
            "`*.192.0.2.1`: there is nothing below an address",
        ),
        (
            "'*.video.example'",
            "'a b'",
            "`a b`: the host is none: an octet is no letter",
        ),
        (
            "cdn.example/video",
            "'/video'",
            "`/video`: the host is none: it is empty",
        ),
        (
            "name: dns,",
            "name: video,",
            "application `video` is configured twice: first in sluice.yaml line 16",
        ),
        (
            "hosts: [both.example], flows: [permit out ip from 192.0.2.0/24 to assigned]",
            "",
            "application `both` has neither hosts nor flows",
        ),
        (
            "[video, dns]",
            "[video, games]",
            "no application is named `games`",
        ),
        (
            "hosts: [www.example], flows",
            "applications: [both], flows",
            "`both` has flows, which may not be beside those of the rule",
        ),
    ] {
        assert!(RULES.contains(from), "{from} is not in the rules");
        let message = refusal(&format!("{GOOD}{}", RULES.replace(from, to)));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn hosts_that_never_count_are_told() {
    let rules = RULES.replace(
        "hosts: [shop.example]",
        "hosts: [live.video.example, cdn.example/video/1, cdn.example]",
    );
    let told = config(&rules).unreachable_hosts();
    assert_eq!(
        told,
        [
            "rulebase `base`: `live.video.example` of precedence 2 is found by precedence 1 before",
            "rulebase `base`: `cdn.example/video/1` of precedence 2 is found by precedence 1 before"
        ]
    );
    // One with other conditions may let a flow through to the next.
    let rules = rules.replace("[video, dns]}", "[video], tos: [184, 252]}");
    assert!(config(&rules).unreachable_hosts().is_empty());
}

/// A folder with files, which goes at the end.
struct Folder(PathBuf);

impl Folder {
    /// With the configuration `GOOD` and what is `predefined`, and with files of applications.
    fn with(predefined: &str, files: &[(&str, &str)]) -> Self {
        let named = |number| {
            let name = format!("sluice-applications-{}-{number}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let mut folders = (0..).map(named);
        let own = Self(folders.find(|folder| fs::create_dir(folder).is_ok()).unwrap());
        fs::create_dir(own.0.join("applications")).unwrap();
        own.write("sluice.yaml", &format!("{GOOD}{predefined}"));
        files.iter().for_each(|(name, text)| own.write(name, text));
        own
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn load(&self) -> Result<Config, String> {
        Config::load(&self.0.join("sluice.yaml")).map_err(|error| error.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const IN_FILES: &str = "\
predefined:
  applications: [{name: own, hosts: [own.example]}]
  application_files: ['applications/*.yaml', more.yml]
  rulebases:
    - name: base
      rules: [{precedence: 1, applications: [own, video, games, dns]}, {precedence: 2}]
";
const FILES: [(&str, &str); 3] = [
    (
        "applications/b.yaml",
        "- {name: video, hosts: ['*.video.example']}\n",
    ),
    (
        "applications/a.yaml",
        "# Of partners\n- {name: games, hosts: [games.example]}\n",
    ),
    (
        "more.yml",
        "- name: dns\n  flows: [permit out 17 from any 53 to assigned]\n",
    ),
];

#[test]
fn applications_in_files_are_behind_those_of_the_configuration_by_the_files_names() {
    let folder = Folder::with(IN_FILES, &FILES);
    folder.write("applications/.c.yaml", "no application");
    folder.write("applications/c.yaml.orig", "no application");
    let config = folder.load().unwrap();
    let ids = |config: &Config| {
        let applications = config.applications();
        let ids = applications.iter().map(|one| one.id.escape_ascii().to_string());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&config), ["own", "games", "video", "dns"]);
    let hosts = config.predefined().rulebase(b"base").unwrap().rules()[0]
        .detection
        .hosts
        .len();
    assert_eq!(hosts, 3);

    // The same, of files that were read before, whatever there is now.
    let text = format!("{GOOD}{IN_FILES}");
    let files = ApplicationFiles::beside(&text, &folder.0).unwrap();
    let (_, read) = Config::parse_in(&text, "sluice.yaml", &folder.0).unwrap();
    assert_eq!(files, read);
    let names: Vec<_> = files.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["applications/a.yaml", "applications/b.yaml", "more.yml"]);
    folder.write("more.yml", "- {name: other, hosts: [other.example]}\n");
    assert_ne!(ApplicationFiles::beside(&text, &folder.0).unwrap(), files);
    let again = Config::parse_with(&text, "sluice.yaml", &files).unwrap();
    assert_eq!(ids(&again), ids(&config));
    let changed = Config::parse_in(&text, "sluice.yaml", &folder.0).unwrap_err();
    assert!(changed.to_string().contains("no application is named `dns`"));
    assert!(ApplicationFiles::beside(GOOD, &folder.0).unwrap().is_empty());

    // Where no folder is known, no more than the syntax is checked.
    let alone = Config::parse(&text, "sluice.yaml").unwrap_err().to_string();
    assert!(alone.contains("there is no folder here"), "{alone}");
    Config::check_alone(&text, "sluice.yaml").unwrap();
    assert!(Config::check_alone(&RULES.replace("[video, dns]", "[games]"), "x").is_err());
}

#[test]
fn an_application_that_changes_in_a_file_is_a_change_of_the_configuration() {
    let folder = Folder::with(IN_FILES, &FILES);
    let before = folder.load().unwrap();
    folder.write("applications/b.yaml", "- {name: video, hosts: [video.example]}\n");
    folder.write("applications/c.yaml", "- {name: news, hosts: [news.example]}\n");
    let changes = Differences::between(&before, &folder.load().unwrap());
    let texts: Vec<_> = changes.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "~ predefined.applications[video].hosts: [\"*.video.example\"] -> [\"video.example\"] (live)",
            "+ predefined.applications[news]: {\"flows\":[],\"hosts\":[\"news.example\"],\"name\":\"news\",\"protocols\":[]} (live)",
        ]
    );
}

#[test]
fn a_file_with_a_mistake_is_refused_whole_with_its_name() {
    let deep = "- {name: a, hosts: [a.example], colour: red}\n";
    let long = "#".repeat((16 << 20) + 1);
    for (file, text, parts) in [
        (
            "applications/b.yaml",
            deep,
            ["applications/b.yaml: line 1", "colour"],
        ),
        (
            "applications/b.yaml",
            "- {name: a, hosts: [a.example]}\n- {name: b, hosts: ['a b']}\n",
            ["applications/b.yaml: line 2", "`a b`: the host is none"],
        ),
        (
            "applications/b.yaml",
            "- {name: a}\n",
            [
                "applications/b.yaml: line 1 column 10",
                "application `a` has neither hosts nor flows",
            ],
        ),
        (
            "applications/b.yaml",
            "\n- {name: games, hosts: [a.example]}\n",
            [
                "applications/b.yaml: line 2 column 10",
                "application `games` is configured twice: first in applications/a.yaml line 2",
            ],
        ),
        (
            "more.yml",
            "- {name: own, hosts: [a.example]}\n",
            [
                "more.yml: line 1",
                "application `own` is configured twice: first in",
            ],
        ),
        ("more.yml", "name: a\n", ["more.yml: line 1", "sequence"]),
        (
            "more.yml",
            &long,
            ["application_files: `more.yml`", "longer than 16 MiB"],
        ),
    ] {
        let folder = Folder::with(IN_FILES, &FILES);
        folder.write(file, text);
        let error = folder.load().unwrap_err();
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{parts:?}: {error}"
        );
    }
    let half = "#".repeat(9 << 20);
    let folder = Folder::with(IN_FILES, &FILES);
    folder.write("applications/b.yaml", &half);
    folder.write("more.yml", &half);
    let error = folder.load().unwrap_err();
    assert!(
        error.contains("`more.yml`: with it the files are longer than 16 MiB"),
        "{error}"
    );
    assert!(error.contains("sluice.yaml: line 16"), "{error}");
}

#[test]
fn names_of_files_stay_below_the_folder_and_are_there() {
    for (name, words) in [
        ("''", "a file's name has 1 to 255 octets"),
        ("/etc/a.yaml", "without `.`, `..` and a slash in front"),
        ("../a.yaml", "without `.`, `..` and a slash in front"),
        ("a/./b.yaml", "without `.`, `..` and a slash in front"),
        ("\"a\\nb.yaml\"", "no control character"),
        ("'*/a.yaml'", "one `*` may be in the name of the file"),
        ("'a*b*.yaml'", "one `*` may be in the name of the file"),
        ("token", "must end with .yaml or .yml"),
        ("none.yaml", "`none.yaml`: cannot be read: No such file"),
        ("folder.yaml", "`folder.yaml`: cannot be read: it is no file"),
        (
            "'nowhere/*.yaml'",
            "`nowhere/*.yaml`: cannot be read: No such file",
        ),
        (
            "'applications/z*.yaml'",
            "`applications/z*.yaml`: there is no such file",
        ),
    ] {
        let folder = Folder::with(&format!("predefined: {{application_files: [{name}]}}\n"), &FILES);
        fs::create_dir(folder.0.join("folder.yaml")).unwrap();
        let error = folder.load().unwrap_err();
        assert!(error.contains(words), "{name}: {error}");
        assert!(error.contains("line 14"), "{name}: {error}");
    }
    let folder = Folder::with("predefined: {application_files: ['applications/*.yaml']}\n", &[]);
    (0..=1_000).for_each(|file| folder.write(&format!("applications/{file}.yaml"), ""));
    let error = folder.load().unwrap_err();
    assert!(error.contains("more than 1000 files"), "{error}");
    fs::remove_file(folder.0.join("applications/7.yaml")).unwrap();
    assert!(folder.load().unwrap().applications().is_empty());
}

#[test]
fn what_is_written_twice_in_applications_is_told() {
    let predefined = "\
predefined:
  applications:
    - name: a
      hosts: [x.example, y.example, X.example, '*.z.example', www.z.example, z.example/a, 'p.example/a/b', p.example/a,
        p.example/ab, p.example/b]
      flows: [permit out 17 from any 53 to assigned, permit out 6 from any to assigned, permit out 17 from any 53 to assigned]
    - {name: b, hosts: [y.example, '*.example', '*.sub.example']}
";
    let notes = config(predefined).application_notes();
    assert_eq!(
        notes,
        [
            "application `a`: `permit out 17 from any 53 to assigned` is written twice",
            "application `a`: `x.example` is written twice",
            "application `a`: `www.z.example` is covered by `*.z.example`",
            "application `a`: `z.example/a` is covered by `*.z.example`",
            "application `a`: `p.example/a/b` is covered by `p.example/a`",
            "application `a`: `p.example/ab` is covered by `p.example/a`",
            "application `b`: `y.example` is covered by `*.example`",
            "application `b`: `*.sub.example` is covered by `*.example`",
            "application `b`: `y.example` is of application `a`, too; by both the rule with the lower precedence value \
             counts",
        ]
    );
    assert!(config(RULES).application_notes().is_empty());
}

#[test]
fn forty_thousand_hosts_in_files_are_read_and_compared() {
    let files: Vec<(String, String)> = (0..20)
        .map(|file| {
            let application = |one: usize| {
                let hosts: Vec<String> = (0..40)
                    .map(|host| format!("h{host}.a{one}.f{file}.example/path/of/{host}"))
                    .collect();
                format!(
                    "- {{name: a{file}-{one}, hosts: [{}, same.example/{file}]}}\n",
                    hosts.join(", ")
                )
            };
            let text = (0..50).map(application).collect();
            (format!("applications/{file}.yaml"), text)
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let folder = Folder::with(
        "predefined: {application_files: ['applications/*.yaml']}\n",
        &files,
    );
    let config = folder.load().unwrap();
    assert_eq!(config.applications().len(), 1_000);
    let hosts = config.predefined.applications.iter().map(|one| one.hosts.len());
    assert_eq!(hosts.sum::<usize>(), 41_000);
    let notes = config.notes();
    assert_eq!(notes.len(), 21);
    assert!(
        notes[20].contains("960 more hosts are of several applications"),
        "{}",
        notes[20]
    );
    assert!(
        Differences::between(&config, &folder.load().unwrap())
            .changes
            .is_empty()
    );
}
