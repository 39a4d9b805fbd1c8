//! A report as tables of text, for a terminal and for a page alike.

use super::super::published::{Forwarders, Traffic};
use super::arithmetic::{Bound, Derived};
use super::contents::Report;
use super::digits::digits;
use super::kept::KeptReport;
use super::models::ModelReport;
use super::published_report::PublishedReport;
use super::result_file::{MeasuredTarget, ResultFile};
use super::wanted::PointReport;

/// A table with a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its title.
    pub title: &'static str,
    /// A sentence above it.
    pub note: String,
    /// Names of columns.
    pub head: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn new(title: &'static str, note: impl Into<String>, head: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self {
            title,
            note: note.into(),
            head: head.iter().map(|&name| name.to_owned()).collect(),
            rows,
        }
    }
}

/// All tables, in the order of reading.
#[must_use]
pub fn tables(report: &Report) -> Vec<Table> {
    vec![
        per_core(report),
        shares(report),
        throughputs(report),
        per_server(report),
        assumptions(report),
        formulas(report),
        machine(report),
        floors(report),
        host(report),
        targets(report),
    ]
}

/// What stands where there is no number.
const NONE: &str = "-";

/// Said in each row of a server.
const NOT_MEASURED: &str = "none measured";

fn text(derived: Option<&Derived>) -> String {
    derived.map_or(NONE.into(), Derived::text)
}

fn number(value: Option<f64>) -> String {
    value.map_or(NONE.into(), digits)
}

/// Points with figures, of all models.
fn points(report: &Report) -> impl Iterator<Item = (&ModelReport, &PointReport)> {
    let models = report.models.iter();
    models.flat_map(|model| std::iter::repeat(model).zip(&model.points))
}

fn per_core(report: &Report) -> Table {
    let mut rows = Vec::new();
    for model in &report.models {
        for published in &model.published {
            rows.push(published_row(published));
        }
        if let Some(why) = model.not_measured {
            rows.push(row_of_words(model.traffic.label(), why, PER_CORE.len()));
        }
        for point in &model.points {
            rows.push(point_row(model, point));
        }
    }
    let note = "Published systems have their NICs; a core, thread or vCPU of theirs is another than ours. Sluice: one \
                self-fed worker, no NIC; \"with driver\" is that with the assumed driver and scaling. A ratio is that \
                over the published figures above it, in their order, and of the measured figure where a published one \
                has no I/O. A card has no rate of cores: beside the cores of its host are those of workers that carry \
                its Gbit/s and do what it does: of model Q those with queues, at all of its Gbit/s.";
    Table::new("Beside published figures, per core", note, &PER_CORE, rows)
}

const PER_CORE: [&str; 10] = [
    "model: figure",
    "octets",
    "ns/packet",
    "x sketch floor",
    "Mpps/core",
    "with driver",
    "Gbit/s/core",
    "of published",
    "cores for card",
    "notes",
];

fn row_of_words(first: &str, words: &str, columns: usize) -> Vec<String> {
    let mut row = vec![format!("{first}: Sluice")];
    row.resize(columns - 1, NONE.into());
    row.push(words.to_owned());
    row
}

fn published_row(published: &PublishedReport) -> Vec<String> {
    let figure = &published.figure;
    let mut notes: Vec<String> = [figure.forwarders.words()].into();
    notes.extend(figure.gbps.map(|gbps| format!("{} Gbit/s", digits(gbps))));
    notes.extend(figure.total_mpps().map(|mpps| format!("{} Mpps", digits(mpps))));
    notes.extend(figure.delay.map(|delay| format!("delay {delay}")));
    notes.extend((!figure.condition.is_empty()).then(|| figure.condition.to_owned()));
    let year = figure.year.map_or(String::new(), |year| format!(" ({year})"));
    vec![
        format!("{}: {}{year}", figure.traffic.label(), figure.system),
        number(figure.octets),
        NONE.into(),
        NONE.into(),
        text(published.mpps_per_core.as_ref()),
        NONE.into(),
        text(published.gbps_per_core.as_ref()),
        NONE.into(),
        match figure.forwarders {
            Forwarders::Card(Some(cores)) => format!("{} of its host", digits(cores)),
            _ => NONE.into(),
        },
        notes.join(", "),
    ]
}

fn point_row(model: &ModelReport, point: &PointReport) -> Vec<String> {
    let measured = point.measured.as_ref();
    vec![
        ours(model.traffic, point),
        point.octets.text(),
        number(measured.map(|point| point.nanos)),
        number(measured.and_then(|point| point.sketch_ratio)),
        number(measured.map(|point| 1e3 / point.nanos)),
        text(point.derived.as_ref().map(|derived| &derived.mpps_per_core)),
        text(point.derived.as_ref().map(|derived| &derived.gbps_per_core)),
        numbers(&point.of_published),
        numbers(&point.cores_for_card),
        point.notes.join("; "),
    ]
}

/// In the order of the published figures; one sign where there is none.
fn numbers(of: &[Option<Derived>]) -> String {
    if of.iter().all(Option::is_none) {
        return NONE.into();
    }
    let all: Vec<String> = of.iter().map(|one| text(one.as_ref())).collect();
    all.join(", ")
}

fn shares(report: &Report) -> Table {
    let row = |(model, one): (&ModelReport, &KeptReport)| {
        let ratios: Vec<String> = one.of_published.iter().map(Derived::text).collect();
        let sluice = if one.file.is_some() { "Sluice, " } else { "" };
        vec![
            format!("{}: {sluice}{}", model.traffic.label(), one.what),
            one.kept.text(),
            one.kept.formula.clone(),
            text(one.with_driver.as_ref()),
            if ratios.is_empty() {
                NONE.into()
            } else {
                ratios.join(", ")
            },
            one.file.clone().unwrap_or_else(|| "published".into()),
        ]
    };
    let models = report.models.iter();
    let rows = models
        .flat_map(|model| std::iter::repeat(model).zip(&model.kept))
        .map(row);
    Table::new(
        "Share of the rate kept with inspection",
        "The rate with rules over that without. Sluice: of pairs of runs; \"with driver\" has the assumed driver on both \
         sides, as the published systems have theirs, and is what the ratio is of. Sluice has a QER and a URR on both \
         sides; with rules it counts contents and writes no usage records, published are DPI and offline billing.",
        &[
            "model: figure",
            "kept",
            "from",
            "with driver",
            "of published",
            "file",
        ],
        rows.collect(),
    )
}

fn ours(traffic: Traffic, point: &PointReport) -> String {
    format!("{}: Sluice, {}", traffic.label(), point.name)
}

fn throughputs(report: &Report) -> Table {
    let wanted: Vec<String> = report.assumptions.gbps.iter().map(|&gbps| digits(gbps)).collect();
    let mut head: Vec<String> = ["model: figure", "Gbit/s per core"].map(String::from).into();
    for gbps in &wanted {
        head.push(format!("cores for {gbps}"));
        head.push(format!("servers for {gbps}"));
        head.push(format!("W a Gbit/s at {gbps}"));
        head.push(format!("cost a Gbit/s at {gbps}"));
    }
    head.push("NIC".into());
    let mut rows = Vec::new();
    for model in &report.models {
        for published in model.published.iter().filter(|one| !one.cores.is_empty()) {
            rows.push(published_cores(published));
        }
        rows.extend(
            model
                .points
                .iter()
                .filter_map(|point| point_throughputs(model.traffic, point)),
        );
    }
    Table {
        title: "Cores and servers for a throughput",
        note: format!(
            "Gbit/s wanted: {}; of both directions together, each packet counts once. Sluice's cores have headroom; \
             published ones are at their published rate, with their NICs. {}.",
            wanted.join(", "),
            capital(report.derived)
        ),
        head,
        rows,
    }
}

fn published_cores(published: &PublishedReport) -> Vec<String> {
    let figure = &published.figure;
    let comma = if figure.condition.is_empty() { "" } else { ", " };
    let name = format!(
        "{}: {}{comma}{}",
        figure.traffic.label(),
        figure.system,
        figure.condition
    );
    let mut row = vec![name, text(published.gbps_per_core.as_ref())];
    for cores in &published.cores {
        row.extend([cores.text(), NONE.into(), NONE.into(), NONE.into()]);
    }
    row.push(if figure.has_io { "included" } else { NOT_MEASURED }.into());
    row
}

fn point_throughputs(traffic: Traffic, point: &PointReport) -> Option<Vec<String>> {
    let derived = point.derived.as_ref()?;
    let mut row = vec![ours(traffic, point), derived.planned_gbps_per_core.text()];
    for wanted in &derived.throughputs {
        let of = [
            &wanted.cores,
            &wanted.servers,
            &wanted.watts_per_gbps,
            &wanted.cost_per_gbps,
        ];
        row.extend(of.map(Derived::text));
    }
    row.push(NOT_MEASURED.into());
    Some(row)
}

fn per_server(report: &Report) -> Table {
    let row = |(model, point): (&ModelReport, &PointReport)| {
        let derived = point.derived.as_ref()?;
        let bound = match derived.server_bound {
            Bound::Cores => "cores",
            Bound::Nics => "NICs (assumed)",
        };
        let numbers = [
            &derived.planned_gbps_per_core,
            &derived.gbps_per_server,
            &derived.mpps_per_server,
            &derived.gbps_per_watt,
            &derived.mpps_per_watt,
            &derived.watts_per_gbps,
            &derived.cost_per_gbps,
        ];
        let mut row = vec![ours(model.traffic, point)];
        row.extend(numbers.map(Derived::text));
        row.extend([bound.to_owned(), NOT_MEASURED.to_owned()]);
        Some(row)
    };
    let head = [
        "model: figure",
        "Gbit/s per core",
        "Gbit/s per server",
        "Mpps per server",
        "Gbit/s a W",
        "Mpps a W",
        "W a Gbit/s",
        "cost a Gbit/s",
        "bound by",
        "NIC",
    ];
    let note = format!(
        "A full server with the assumed cores, NICs, power and cost. {}. Power and cost of published systems were not \
         published.",
        capital(report.derived)
    );
    Table::new(
        "Per server and per watt",
        note,
        &head,
        points(report).filter_map(row).collect(),
    )
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next()
        .map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

fn assumptions(report: &Report) -> Table {
    let rows = report.assumptions.each().map(|one| {
        vec![
            one.name.to_owned(),
            digits(one.value),
            one.unit.to_owned(),
            one.option.to_owned(),
            one.from.clone(),
            one.what.to_owned(),
        ]
    });
    Table::new(
        "Assumptions",
        "Each is changed by its option.",
        &["name", "value", "unit", "option", "from", "what"],
        rows.into(),
    )
}

fn formulas(report: &Report) -> Table {
    let rows = report.formulas.iter();
    let rows = rows.map(|one| vec![one.name.to_owned(), one.formula.to_owned()]);
    Table::new(
        "Formulas",
        "The JSON has each number with its formula and the numbers in it, the page below.",
        &["number", "formula"],
        rows.collect(),
    )
}

fn machine(report: &Report) -> Table {
    let row = |file: &ResultFile| {
        vec![
            file.name.clone(),
            file.command.clone(),
            file.build(),
            file.machine.words(),
            number(file.io_forwarding_mpps),
        ]
    };
    Table::new(
        "Files and machines",
        "",
        &[
            "file",
            "command",
            "version",
            "machine",
            "DPDK io over null ports, Mpps",
        ],
        report.files.iter().map(row).collect(),
    )
}

fn floors(report: &Report) -> Table {
    let mut rows = Vec::new();
    for file in &report.files {
        for floors in &file.floors {
            rows.push(vec![
                file.name.clone(),
                digits(floors.flows as f64),
                digits(floors.sessions as f64),
                digits(floors.sketch),
                digits(floors.lookup),
                digits(floors.line_budget),
            ]);
        }
    }
    Table::new(
        "Floors of the machine, ns per packet",
        "What memory alone takes, measured beside the figures: the median round.",
        &["file", "flows", "sessions", "sketch", "lookup", "line budget"],
        rows,
    )
}

fn host(report: &Report) -> Table {
    let row = |file: &ResultFile| {
        let found = &file.disturbance;
        vec![
            file.name.clone(),
            digits(found.load_average),
            format!("{}%", digits(found.taken() * 100.0)),
            format!("{}%", digits(found.most_taken * 100.0)),
            format!("{} of {}", found.disturbed_rounds, found.rounds),
            format!("{} of {}", found.void_trials, found.trials),
            if file.disturbed_by.is_empty() {
                "nothing that shows".into()
            } else {
                file.disturbed_by.join("; ")
            },
        ]
    };
    Table::new(
        "Whether the host disturbed the runs",
        "Taken: time in which a thread waited for a processor, and steal of the machine. Rounds without a core are not \
         in the medians.",
        &[
            "file",
            "load before",
            "taken",
            "most taken",
            "rounds without a core",
            "void trials",
            "disturbed by",
        ],
        report.files.iter().map(row).collect(),
    )
}

fn targets(report: &Report) -> Table {
    let row = |file: &ResultFile, target: &MeasuredTarget| {
        let sign = if target.at_least { ">=" } else { "<=" };
        vec![
            target.id.clone(),
            format!("{} {}", number(target.value), target.unit),
            format!("{sign} {}", number(target.target)),
            if target.met { "reached" } else { "not reached" }.to_owned(),
            file.name.clone(),
            target.what.clone(),
            target.but.join("; "),
        ]
    };
    let rows = report.files.iter();
    let rows = rows.flat_map(|file| file.targets.iter().map(move |target| row(file, target)));
    Table::new(
        "Targets",
        "As each run judged them.",
        &["target", "measured", "asked", "result", "file", "what", "but"],
        rows.collect(),
    )
}
