//! Domain lists.

use std::path::{Path, PathBuf};

use super::*;

/// A folder that is there as long as this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with(lists: &[(&str, &Path)], categories: &str) -> String {
    let lists: Vec<_> = lists
        .iter()
        .map(|(category, file)| format!("{{category: {category}, file: '{}'}}", file.display()))
        .collect();
    format!(
        "{GOOD}domain_lists: [{}]\npredefined: {{rulebases: [{{name: r, rules: [{{precedence: 1, categories: \
         [{categories}]}}, {{precedence: 2}}]}}]}}\naccess_lists: [{{name: a, rules: [{{action: deny, categories: \
         [{categories}]}}]}}]\n",
        lists.join(", ")
    )
}

#[test]
fn rules_name_the_categories_of_files() {
    let folder = Folder::new("lists");
    let adult = folder.write(
        "adult",
        "# a comment\nadult.example\n0.0.0.0 other.example\nno host at all\n",
    );
    let games = folder.write("games", "games.example\nother.example\n");
    let more = folder.write("more", "more.example\n");
    let text = with(&[("adult", &adult), ("games", &games), ("adult", &more)], "games");
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    let lists = config.domain_lists();
    let of = |name: &str| {
        lists
            .lookup(&dpi::HostName::parse(name.as_bytes()).unwrap())
            .bits()
    };
    assert_eq!(["www.adult.example", "more.example"].map(of), [1, 1]);
    assert_eq!(["games.example", "other.example", "example"].map(of), [2, 3, 0]);
    let words = config.domain_lists_in_words();
    assert!(words[0].starts_with("domain lists: 4 domains, "), "{words:?}");
    let bad = format!(
        "domain list {}: 1 lines have no domain and are left out, the first is line 4",
        adult.display()
    );
    assert_eq!(words[1..], [bad]);
    let network = config.network().unwrap();
    let rules = network.access_lists().all()[0].list.rules();
    let categories: Vec<_> = rules.map(|(_, rule)| rule.detection.categories.bits()).collect();
    assert_eq!(categories, [2, 0]);
    let predefined = config.predefined();
    let rulebase = predefined.rulebase(b"r").unwrap();
    assert!(rulebase.asks() && rulebase.lists().say_the_same_as(lists));
    // The same lists, read again, are the same; others are not.
    let again = Config::parse(&text, "sluice.yaml").unwrap();
    assert!(again.predefined() == predefined);
    folder.write("more", "another.example\n");
    let other = Config::parse(&text, "sluice.yaml").unwrap();
    assert!(other.predefined() != predefined);
}

#[test]
fn lists_that_cannot_be_had_are_refused_without_what_is_in_them() {
    let folder = Folder::new("no-lists");
    let secret = folder.write("secret", "root:x:0:0:secret\n");
    let missing = folder.0.join("missing");
    for (lists, words) in [
        (&[("a", missing.as_path())][..], "missing"),
        (&[("a", Path::new("relative"))], "not named from the root"),
        (&[("a", Path::new("/dev/zero"))], "no regular file"),
        (&[("''", secret.as_path())], "the category has no character"),
    ] {
        let text = refusal(&with(lists, ""));
        assert!(text.contains(words), "{text}");
    }
    let text = with(&[("a", &secret)], "a");
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    let words = config.domain_lists_in_words().join("\n");
    assert!(
        words.contains("the first is line 1") && !words.contains("root"),
        "{words}"
    );
    let many: Vec<_> = (0..65).map(|number| format!("c{number}")).collect();
    let many: Vec<_> = many
        .iter()
        .map(|name| (name.as_str(), secret.as_path()))
        .collect();
    assert!(refusal(&with(&many, "")).contains("more than 64 categories"));
}
