//! The frame of a page: its style, its sections and tables. Nothing comes from elsewhere.

use super::super::error::BenchError;
use super::chart::{Axis, Series, chart, legend};
use super::escape::escape;

/// Colours of a light and of a dark page.
const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1f2328;--faint:#d8dee4;--ground:#fff;--good:#1a7f37;--bad:#b35900}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#30363d;--ground:#0d1117;--good:#3fb950;--bad:#e09b4f}}
body{background:var(--ground);color:var(--ink);font:15px/1.45 system-ui,sans-serif;margin:0}
main{max-width:1180px;margin:0 auto;padding:24px}
h2{margin:36px 0 8px;font-size:20px}
.pair{display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start}
.pair>figure{flex:0 1 560px;margin:0;min-width:0}.pair>div{flex:1 1 420px;overflow-x:auto}
svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-size:13px}
th,td{padding:3px 10px;border-bottom:1px solid var(--faint);text-align:right;vertical-align:top}
th,td{white-space:nowrap}th:first-child,td:first-child{text-align:left}
td.words{text-align:left;white-space:normal;min-width:260px}
.met{color:var(--good);font-weight:600}.missed{color:var(--bad);font-weight:600}
.warning{border-left:4px solid var(--bad);padding:6px 12px}
.legend{font-size:13px;margin:0 0 0 64px}.legend span{margin-right:14px;white-space:nowrap}
.legend i{display:inline-block;width:18px;height:4px;margin-right:5px;vertical-align:middle}
.legend .reference i{height:1px}
pre{overflow-x:auto;font-size:13px}
.wide{overflow-x:auto}.wide td:last-child{white-space:normal;text-align:left;min-width:140px}
details{margin:6px 0}summary{cursor:pointer}
";

/// A page with this body, which is HTML.
pub fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{body}</main></body></html>\n"
    )
}

/// A part of the page under its heading.
pub fn section(title: &str, body: &str) -> String {
    format!("<section><h2>{}</h2>{body}</section>", escape(title))
}

/// A table of texts, which are escaped.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let body: Vec<String> = rows
        .iter()
        .map(|row| cells("td", &mut row.iter().map(|cell| escape(cell))))
        .collect();
    let head = cells("th", &mut head.iter().map(|cell| escape(cell)));
    format!("<table>{head}{}</table>", body.concat())
}

/// A plot with its legend, and `beside`, which is HTML.
///
/// # Errors
/// The drawing's.
pub fn pair(x: Axis, y: Axis, series: &[Series], beside: &str) -> Result<String, BenchError> {
    let svg = chart(x, y, series)?;
    Ok(format!(
        "<div class=\"pair\"><figure>{svg}{}</figure><div>{beside}</div></div>",
        legend(series)
    ))
}
