//! A report as a page: self-contained, in the style of the benchmark's own.

use super::super::error::BenchError;
use super::super::html::chart::{Axis, PlotPoint, Series};
use super::super::html::escape::escape;
use super::super::html::frame::{document, pair, section, table};
use super::super::published::{self, Traffic};
use super::arithmetic::Derived;
use super::contents::Report;
use super::models::ModelReport;
use super::tables::{Table, tables};
use super::wanted::PointReport;

/// The page of a report.
///
/// # Errors
/// The drawing's.
pub fn page(report: &Report) -> Result<String, BenchError> {
    let warnings: Vec<String> = report
        .warnings
        .iter()
        .map(|warning| format!("<p class=\"warning\">{}</p>", escape(warning)))
        .collect();
    let tables: Vec<String> = tables(report)
        .iter()
        .filter(|table| !table.rows.is_empty())
        .map(of_table)
        .collect();
    let body = format!(
        "<p>Published traffic models beside figures measured by <code>sluice bench</code>. <b>{}</b> in any measured \
         figure; {}. The published figures are those of {}.</p>{}{}{}{}",
        escape(report.leaves_out),
        escape(report.derived),
        published::SOURCE,
        warnings.concat(),
        plot(report)?,
        tables.concat(),
        arithmetic(report)
    );
    Ok(document("sluice bench report", &body))
}

fn of_table(of: &Table) -> String {
    let head: Vec<&str> = of.head.iter().map(String::as_str).collect();
    let note = if of.note.is_empty() {
        String::new()
    } else {
        format!("<p>{}</p>", escape(&of.note))
    };
    section(
        of.title,
        &format!("{note}<div class=\"wide\">{}</div>", table(&head, &of.rows)),
    )
}

/// Gbit/s of a core by frame size, of model V.
fn plot(report: &Report) -> Result<String, BenchError> {
    let points = report.models.iter().filter(|model| model.traffic == Traffic::V);
    let points: Vec<&PointReport> = points.flat_map(|model| &model.points).collect();
    let mut profiles: Vec<&str> = points.iter().map(|point| profile(point)).collect();
    profiles.dedup();
    let line = |name: &&str| {
        let own = points.iter().filter(|point| profile(point) == *name);
        let place = |point: &&PointReport| {
            let derived = point.derived.as_ref()?;
            Some(PlotPoint::new(
                point.octets.value,
                derived.planned_gbps_per_core.value,
            ))
        };
        Series::measured(format!("profile {name}"), own.filter_map(place).collect())
    };
    let series: Vec<Series> = profiles.iter().map(line).collect();
    let series: Vec<Series> = series
        .into_iter()
        .filter(|line| !line.points.is_empty())
        .collect();
    if series.is_empty() {
        return Ok(String::new());
    }
    let note = format!(
        "<p>Measured time of a packet, with the assumed driver, scaling and headroom. {}.</p>",
        escape(report.derived)
    );
    let body = pair(
        Axis::log("octets of a packet, mean"),
        Axis::log("planned Gbit/s per core"),
        &series,
        &note,
    )?;
    Ok(section("Model V: Gbit/s of a core", &body))
}

fn profile(point: &PointReport) -> &str {
    point.name.split(' ').next().unwrap_or_default()
}

/// Every derived number of every point with its formula, to be opened.
fn arithmetic(report: &Report) -> String {
    let of_model = |model: &ModelReport| {
        let points: Vec<String> = model.points.iter().filter_map(of_point).collect();
        points.concat()
    };
    let points: Vec<String> = report.models.iter().map(of_model).collect();
    if points.iter().all(String::is_empty) {
        return String::new();
    }
    let note = format!("<p>{}.</p>", escape(report.derived));
    section(
        "Each number with its formula",
        &format!("{note}{}", points.concat()),
    )
}

fn of_point(point: &PointReport) -> Option<String> {
    let derived = point.derived.as_ref()?;
    let row = |name: String, of: &Derived| vec![name, of.text(), of.unit.to_owned(), of.formula.clone()];
    let mut rows = vec![row("octets".into(), &point.octets)];
    rows.extend(derived.named().into_iter().map(|(name, of)| row(name, of)));
    let ratios = point.of_published.iter().flatten();
    rows.extend(ratios.map(|of| row("of published".into(), of)));
    let cores = point.cores_for_card.iter().flatten();
    rows.extend(cores.map(|of| row("cores for a card's Gbit/s".into(), of)));
    let file = point.file.as_deref().unwrap_or_default();
    Some(format!(
        "<details><summary>{}, from {}</summary><div class=\"wide\">{}</div></details>",
        escape(&point.name),
        escape(file),
        table(&["number", "value", "unit", "formula"], &rows)
    ))
}
