//! The demo's live view: a table that is drawn in place on a terminal, a line a second elsewhere.

use std::io::{IsTerminal, Stderr, stderr};
use std::time::Duration;

use packet::DropReason;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Constraint;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use sim::report::DirectionReport;
use sim::tracker::Latency;

/// Rows that the view takes on a terminal.
const HEIGHT: u16 = 13;
/// Drop reasons shown.
const MOST_DROPS: usize = 6;

/// Contents of the view.
pub struct Snapshot {
    /// The present phase of the demo.
    pub phase: &'static str,
    /// Time since the traffic started, and how long it is to last.
    pub time: (Duration, Duration),
    /// Sessions established, and wanted.
    pub sessions: (u32, u32),
    /// Workers.
    pub workers: usize,
    /// Rates of the last interval, counts and delays since the start.
    pub uplink: DirectionReport,
    /// Rates towards the UEs.
    pub downlink: DirectionReport,
    /// Packets handed from worker to worker.
    pub handed_over: u64,
    /// Share of packets that an entry of the flow table decided, per cent.
    pub hit_rate: f64,
    /// Drops by reason.
    pub drops: Vec<(DropReason, u64)>,
}

/// Where the view goes.
pub enum View {
    /// A terminal.
    Live(Box<Terminal<CrosstermBackend<Stderr>>>),
    /// A file or a pipe: a line now and then.
    Plain,
}

impl View {
    /// A table on standard error when that is a terminal, else lines.
    #[must_use]
    pub fn open() -> Self {
        let options = TerminalOptions {
            viewport: Viewport::Inline(HEIGHT),
        };
        let terminal = stderr()
            .is_terminal()
            .then(|| Terminal::with_options(CrosstermBackend::new(stderr()), options).ok())
            .flatten();
        terminal.map_or(Self::Plain, |terminal| Self::Live(Box::new(terminal)))
    }

    /// How often [`show`](Self::show) is worth calling.
    #[must_use]
    pub fn interval(&self) -> Duration {
        match self {
            Self::Live(_) => Duration::from_millis(250),
            Self::Plain => Duration::from_secs(1),
        }
    }

    /// Shows `snapshot`. A terminal that fails is not worth ending a run for.
    pub fn show(&mut self, snapshot: &Snapshot) {
        match self {
            Self::Live(terminal) => {
                let _ = terminal.draw(|frame| draw(frame, snapshot));
            }
            Self::Plain => eprintln!("{}", line(snapshot)),
        }
    }

    /// Takes the table away; the summary is printed in its place.
    pub fn close(self) {
        if let Self::Live(mut terminal) = self {
            let _ = terminal.clear();
            let _ = terminal.show_cursor();
        }
    }
}

fn line(snapshot: &Snapshot) -> String {
    let direction = |d: &DirectionReport| format!("{:.3} Mpps {:.2} Gbit/s lost {}", d.mpps, d.gbps, d.lost);
    let dropped: u64 = snapshot.drops.iter().map(|(_, count)| count).sum();
    format!(
        "{:>4.0}s {} sessions {}/{}  up {}  down {}  p99 {:.1} us  drops {dropped}",
        snapshot.time.0.as_secs_f64(),
        snapshot.phase,
        snapshot.sessions.0,
        snapshot.sessions.1,
        direction(&snapshot.uplink),
        direction(&snapshot.downlink),
        snapshot.uplink.latency.p99.max(snapshot.downlink.latency.p99) as f64 / 1e3,
    )
}

fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot) {
    let area = frame.area();
    let title = format!(
        " sluice demo: {}, {:.0} of {:.0} s, {} of {} sessions, {} workers ",
        snapshot.phase,
        snapshot.time.0.as_secs_f64(),
        snapshot.time.1.as_secs_f64(),
        snapshot.sessions.0,
        snapshot.sessions.1,
        snapshot.workers
    );
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [table_area, rest] =
        ratatui::layout::Layout::vertical([Constraint::Length(4), Constraint::Min(0)]).areas(inner);
    frame.render_widget(table(snapshot), table_area);
    frame.render_widget(Paragraph::new(notes(snapshot)), rest);
}

fn table(snapshot: &Snapshot) -> Table<'static> {
    let header = [
        "",
        "Mpps",
        "Gbit/s",
        "sent",
        "received",
        "lost",
        "reordered",
        "p50 us",
        "p99 us",
        "p99.9 us",
    ];
    let widths = [9, 7, 7, 12, 12, 8, 10, 8, 8, 9].map(Constraint::Length);
    let rows = [
        row("uplink", &snapshot.uplink),
        row("downlink", &snapshot.downlink),
    ];
    Table::new(rows, widths).header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
}

fn row(name: &'static str, direction: &DirectionReport) -> Row<'static> {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let Latency { p50, p99, p999, .. } = direction.latency;
    let style = if direction.lost == 0 {
        Style::new()
    } else {
        Style::new().fg(Color::Red)
    };
    Row::new([
        name.to_owned(),
        format!("{:.3}", direction.mpps),
        format!("{:.2}", direction.gbps),
        direction.counts.sent.to_string(),
        direction.counts.received.to_string(),
        direction.lost.to_string(),
        direction.counts.reordered.to_string(),
        us(p50),
        us(p99),
        us(p999),
    ])
    .style(style)
}

fn notes(snapshot: &Snapshot) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(format!(
        "decided by the flow table {:.2} %, handed over between workers {}",
        snapshot.hit_rate, snapshot.handed_over
    ))];
    if snapshot.drops.is_empty() {
        lines.push(Line::from("no drops"));
    }
    let drops = snapshot.drops.iter().take(MOST_DROPS);
    lines.extend(drops.map(|(reason, count)| Line::from(format!("dropped {count}: {}", reason.explain()))));
    lines
}
