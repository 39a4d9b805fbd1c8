//! The page in the daemon: files that the program has in itself, as they are in the repository, without a build step.
//!
//! They are the same for every caller and say nothing of this node, so that they are served without a token; what they
//! show they ask of the routes, as the caller. A browser may load nothing from anywhere else, and no other page may
//! show this one.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// What the page may do: run its own scripts, ask its own origin, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

struct File {
    name: &'static str,
    content_type: &'static str,
    octets: &'static [u8],
}

macro_rules! files {
    ($($name:literal $content_type:expr;)*) => {
        [$(File {
            name: $name,
            content_type: $content_type,
            octets: include_bytes!(concat!("files/", $name)),
        },)*]
    };
}

static FILES: &[File] = &files! {
    "index.html" HTML;
    "icon.svg" "image/svg+xml";
    "style.css" STYLE;
    "app.js" SCRIPT;
    "api.js" SCRIPT;
    "chart.js" SCRIPT;
    "dom.js" SCRIPT;
    "format.js" SCRIPT;
    "live.js" SCRIPT;
    "views/alarms.js" SCRIPT;
    "views/configuration.js" SCRIPT;
    "views/drops.js" SCRIPT;
    "views/network.js" SCRIPT;
    "views/overview.js" SCRIPT;
    "views/poll.js" SCRIPT;
    "views/queues.js" SCRIPT;
    "views/session.js" SCRIPT;
    "views/sessions.js" SCRIPT;
    "views/smfs.js" SCRIPT;
    "views/trace.js" SCRIPT;
    "views/workers.js" SCRIPT;
    // uPlot 1.6.32, as its authors publish it (MIT).
    "uplot-1.6.32.js" SCRIPT;
    "uplot-1.6.32.css" STYLE;
    "uplot-LICENSE" TEXT;
};

/// What names these files as they are: another build with other files has another one.
static TAG: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    FILES.iter().for_each(|file| hasher.write(file.octets));
    format!("\"{:016x}\"", hasher.finish())
});

/// The page at `/`, its files under `/page`.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(async |headers: HeaderMap| file("index.html", &headers)))
        .route(
            "/page/{*name}",
            get(async |Path(name): Path<String>, headers: HeaderMap| file(&name, &headers)),
        )
}

fn file(name: &str, asked: &HeaderMap) -> Response {
    let common: [(HeaderName, &str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // It is asked each time whether the files are still these.
        (CACHE_CONTROL, "no-cache"),
        (ETAG, &TAG),
    ];
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let known = asked.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    if known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == *TAG)) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(CONTENT_TYPE, file.content_type)], file.octets).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use axum::body::Body;
    use axum::extract::Request;
    use http_body_util::BodyExt;
    use tokio::runtime::Builder;
    use tower::ServiceExt;

    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/files/");

    fn ask(request: Request) -> (Response<()>, Vec<u8>) {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (parts, body) = router().oneshot(request).await.unwrap().into_parts();
            let octets = body.collect().await.unwrap().to_bytes().to_vec();
            (Response::from_parts(parts, ()), octets)
        })
    }

    fn get(path: &str) -> (Response<()>, Vec<u8>) {
        ask(Request::get(path).body(Body::empty()).unwrap())
    }

    #[test]
    fn every_file_of_the_folder_is_served_under_a_strict_policy() {
        let named: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        let mut there = BTreeSet::new();
        for folder in ["", "views/"] {
            for entry in fs::read_dir(format!("{FOLDER}{folder}")).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    there.insert(format!("{folder}{}", entry.file_name().to_str().unwrap()));
                }
            }
        }
        assert_eq!(named, there);
        for name in &named {
            let (response, octets) = get(&format!("/page/{name}"));
            assert_eq!(response.status(), StatusCode::OK, "{name}");
            assert_eq!(octets, fs::read(format!("{FOLDER}{name}")).unwrap(), "{name}");
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"));
        }
        assert_eq!(get("/").1, get("/page/index.html").1);
        assert_eq!(get("/page/../mod.rs").0.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn a_browser_that_has_the_files_gets_them_once() {
        let (response, _) = get("/page/app.js");
        let tag = response.headers()[ETAG].clone();
        let again = Request::get("/page/app.js").header(IF_NONE_MATCH, tag);
        let (response, octets) = ask(again.body(Body::empty()).unwrap());
        assert_eq!((response.status(), octets.len()), (StatusCode::NOT_MODIFIED, 0));
    }

    #[test]
    fn the_page_is_small_and_names_no_other_origin() {
        let loaded = FILES.iter().filter(|file| file.name != "uplot-LICENSE");
        let octets: usize = loaded.map(|file| file.octets.len()).sum();
        assert!(octets < 150_000, "{octets} octets");
        for file in FILES.iter().filter(|file| !file.name.starts_with("uplot")) {
            let text = std::str::from_utf8(file.octets).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://"), "{} names an address", file.name);
            for what in ["innerHTML", "eval(", "document.write", " style=\""] {
                assert!(!text.contains(what), "{} has {what}", file.name);
            }
        }
    }
}
