//! How the views look: made for 80 columns and 24 rows, and for more.

use std::time::{Duration, UNIX_EPOCH};

use oam::values::{AlarmList, Flow, Live, LiveDrop, LiveSmf, LiveWorker, QueueList, Severity};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use upf::format::grouped;

use super::app::{App, Session, Sessions, View};
use super::numbers::{bits, duration, packets, percent, scaled};
use super::queues::Queues;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
/// Columns of the bar of a worker's time.
const BAR: usize = 25;
/// Each stage: its letter in the bar, its word, its colour.
const STAGES: [(char, &str, Color); 7] = [
    ('r', "receive", Color::Blue),
    ('p', "parse", Color::Cyan),
    ('s', "select", Color::LightBlue),
    ('l', "lookup", Color::Yellow),
    ('w', "slow path", Color::Red),
    ('a', "apply", Color::Magenta),
    ('t', "send", Color::Green),
];

/// Draws the view that is open.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let [title, body, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    draw_title(frame, title, app);
    frame.render_widget(Paragraph::new(keys_of(app)).style(DIM), keys);
    match (app.view, &app.live) {
        (View::Help, _) => frame.render_widget(Paragraph::new(HELP), body),
        (View::Alarms, _) => draw_alarms(frame, body, app.alarms.as_ref(), app.scroll),
        (View::Queues, _) => draw_queues(frame, body, &app.queues, app.scroll),
        (View::Sessions, _) => draw_sessions(frame, body, &app.sessions),
        (View::Session, _) => draw_session(frame, body, &app.session, app.scroll),
        (_, None) => {
            let words = app
                .lost
                .as_deref()
                .unwrap_or("The first figures come in a moment.");
            frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), body);
        }
        (View::Overview, Some(live)) => draw_overview(frame, body, live, app.alarms.as_ref()),
        (View::Drops, Some(live)) => draw_drops(frame, body, live, app.scroll),
        (View::Smfs, Some(live)) => draw_smfs(frame, body, live, app.scroll),
    }
}

const HELP: &str = "
  o       overview
  s       sessions;  up, down: choose;  Enter: open;  n: more
  /       search sessions: IMSI, SUPI, address, SEID, TEID or DNN
  d       drops, with what to do
  e       queues before ports (egress), and the rates that they share
  m       SMFs
  a       alarms
  Esc     back
  q       quit

  A worker's bar is its time: a letter for each stage that it is in, a dot where
  it has no packets.";

fn keys_of(app: &App) -> &'static str {
    match app.view {
        _ if app.sessions.editing.is_some() => " Enter search   Esc leave it",
        View::Sessions => " up/down choose   Enter open   / search   n more   o overview   q quit",
        View::Session => " up/down scroll   Esc back   o overview   q quit",
        _ => " o overview  s sessions  d drops  e queues  m SMFs  a alarms  ? help  q quit",
    }
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let bar = Style::new().add_modifier(Modifier::REVERSED);
    let state = match (&app.lost, &app.live) {
        (Some(_), _) => "NO CONNECTION ",
        (None, Some(live)) if !live.control => "CONTROL IS BUSY ",
        (None, Some(_)) => "live ",
        (None, None) => "connecting ",
    };
    let who = app.live.as_ref().map_or_else(String::new, |live| {
        let node = &live.node;
        let overload = if node.overloaded { ", OVERLOAD" } else { "" };
        format!(
            "{}  {}  up {}  load {} %{overload}",
            node.node,
            node.version,
            duration(node.uptime_s),
            node.load
        )
    });
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(state.len() as u16)]).areas(area);
    frame.render_widget(Paragraph::new(format!(" sluice  {who}")).style(bar), left);
    frame.render_widget(Paragraph::new(state).style(bar), right);
}

fn draw_overview(frame: &mut Frame<'_>, area: Rect, live: &Live, alarms: Option<&AlarmList>) {
    let instances = (live.instances.len() as u16 + 1).min(area.height / 3);
    let workers = (live.workers.len() as u16 + 1).min(area.height / 3);
    let [figures, alarm, top, _, middle, _, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(instances),
        Constraint::Length(1),
        Constraint::Length(workers),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(figures_of(live)), figures);
    frame.render_widget(Paragraph::new(worst_of(alarms)), alarm);
    frame.render_widget(instances_of(live), top);
    frame.render_widget(workers_of(&live.workers), middle);
    let [left, _, right] = Layout::horizontal([
        Constraint::Percentage(48),
        Constraint::Length(2),
        Constraint::Min(0),
    ])
    .areas(bottom);
    frame.render_widget(smfs_of(&live.smfs), left);
    if live.drops.is_empty() {
        frame.render_widget(Paragraph::new("No packet has been dropped.").style(DIM), right);
    } else {
        frame.render_widget(drops_of(&ranked(&live.drops)), right);
    }
}

fn figures_of(live: &Live) -> Vec<Line<'static>> {
    let figure = |name: &'static str, value: String| [Span::styled(name, DIM), Span::styled(value, BOLD)];
    let way = |flow: &Flow| {
        format!(
            "{:>11} {:>9}   ",
            bits(flow.octets.per_s),
            packets(flow.packets.per_s)
        )
    };
    let sessions = &live.sessions;
    let dropped: f64 = live.drops.iter().map(|drop| drop.per_s).sum();
    let spans = |parts: Vec<[Span<'static>; 2]>| Line::from(parts.into_iter().flatten().collect::<Vec<_>>());
    vec![
        spans(vec![
            figure("Uplink   ", way(&live.uplink)),
            figure("Downlink ", way(&live.downlink)),
            figure("Drops ", packets(dropped)),
        ]),
        spans(vec![
            figure(
                "Sessions ",
                format!(
                    "{} of {}   ",
                    grouped(sessions.now as u64),
                    grouped(sessions.most as u64)
                ),
            ),
            figure("Set-ups ", scaled(sessions.set_up.per_s, "/s") + "   "),
            figure("Refused ", grouped(sessions.refused.count) + "   "),
            figure("Waiting ", grouped(sessions.waiting as u64)),
        ]),
    ]
}

/// A cell that is aligned right.
fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn head<const N: usize>(names: [&'static str; N], from: usize) -> Row<'static> {
    let cells = names.into_iter().enumerate().map(|(place, name)| {
        if place < from {
            Cell::from(name)
        } else {
            right(name.to_owned())
        }
    });
    Row::new(cells).style(DIM)
}

fn instances_of(live: &Live) -> Table<'static> {
    let widths = [13, 6, 8, 5, 11, 9, 11, 9].map(Constraint::Length);
    let rows = live.instances.iter().map(|one| {
        let (state, style) = if one.link { ("up", GOOD) } else { ("DOWN", BAD) };
        Row::new([
            Cell::from(one.instance.clone()).style(BOLD),
            one.roles.join(",").into(),
            one.port.clone().into(),
            Cell::from(state).style(style),
            right(bits(one.received.octets.per_s)),
            right(packets(one.received.packets.per_s)),
            right(bits(one.sent.octets.per_s)),
            right(packets(one.sent.packets.per_s)),
        ])
    });
    let names = ["Instance", "roles", "port", "link", "received", "", "sent", ""];
    Table::new(rows, widths).header(head(names, 4))
}

fn workers_of(workers: &[LiveWorker]) -> Table<'static> {
    let widths = [6, 5, BAR as u16, 10, 10, 9, 9].map(Constraint::Length);
    let rows = workers.iter().map(|one| {
        Row::new([
            Cell::from(one.worker.to_string()).style(BOLD),
            right(percent(one.busy)),
            bar(one).into(),
            right(packets(one.received.per_s)),
            right(packets(one.sent.per_s)),
            right(grouped(one.backlog)),
            right(packets(one.dropped.per_s)),
        ])
    });
    let legend = STAGES.map(|(letter, _, colour)| Span::styled(letter.to_string(), Style::new().fg(colour)));
    let mut stages = vec![Span::raw("stages ")];
    stages.extend(legend);
    let names = [
        Cell::from("Worker"),
        right("busy".into()),
        Cell::from(Line::from(stages)),
        right("received".into()),
        right("sent".into()),
        right("backlog".into()),
        right("drops".into()),
    ];
    Table::new(rows, widths).header(Row::new(names).style(DIM))
}

/// A worker's time: a letter for each part of it that a stage takes.
fn bar(worker: &LiveWorker) -> Line<'static> {
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (stage, (letter, _, colour)) in worker.stages.iter().zip(STAGES) {
        sum += stage.share;
        let end = ((sum * BAR as f64).round() as usize).min(BAR);
        let letters: String = std::iter::repeat_n(letter, end.saturating_sub(drawn)).collect();
        spans.push(Span::styled(letters, Style::new().fg(colour)));
        drawn = drawn.max(end);
    }
    spans.push(Span::styled("·".repeat(BAR - drawn), DIM));
    Line::from(spans)
}

fn smfs_of(smfs: &[LiveSmf]) -> Table<'static> {
    let widths = [Constraint::Min(10), Constraint::Length(9), Constraint::Length(9)];
    let rows = smfs.iter().map(|one| {
        let (state, style) = match one.reachable {
            true => ("reachable", GOOD),
            false => ("NO ANSWER", BAD),
        };
        Row::new([
            Cell::from(one.node.clone()).style(BOLD),
            Cell::from(state).style(style),
            right(grouped(one.sessions as u64)),
        ])
    });
    Table::new(rows, widths).header(head(["SMF", "state", "sessions"], 2))
}

/// Those that happen now first.
fn ranked(drops: &[LiveDrop]) -> Vec<&LiveDrop> {
    let mut ranked: Vec<&LiveDrop> = drops.iter().collect();
    ranked.sort_by(|a, b| b.per_s.total_cmp(&a.per_s).then(b.count.cmp(&a.count)));
    ranked
}

fn drops_of(drops: &[&LiveDrop]) -> Table<'static> {
    let widths = [Constraint::Min(12), Constraint::Length(9), Constraint::Length(13)];
    let rows = drops.iter().map(|one| {
        Row::new([
            Cell::from(one.reason.clone()).style(BOLD),
            right(packets(one.per_s)),
            right(grouped(one.count)),
        ])
    });
    Table::new(rows, widths).header(head(["Drop reason", "rate", "packets"], 1))
}

fn draw_drops(frame: &mut Frame<'_>, area: Rect, live: &Live, scroll: usize) {
    if live.drops.is_empty() {
        return frame.render_widget(
            Paragraph::new("No packet has been dropped since the start."),
            area,
        );
    }
    let mut lines = Vec::new();
    for one in ranked(&live.drops).into_iter().skip(scroll) {
        lines.push(Line::from(vec![
            Span::styled(format!("{:<28}", one.reason), BOLD),
            Span::raw(format!("{:>11} {:>16}  ", packets(one.per_s), grouped(one.count))),
            Span::styled(one.clause.clone(), DIM),
        ]));
        lines.push(Line::from(format!("  {}", one.explanation)));
        lines.push(Line::styled(
            format!("  {}", one.advice),
            Style::new().fg(Color::Cyan),
        ));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, queues: &Queues, scroll: usize) {
    let words = match (&queues.fault, &queues.list) {
        (Some(why), _) => why.as_str(),
        (None, None) => "The queues come in a moment.",
        (None, Some(list)) if list.queues_limit == 0 => {
            "There are no queues before ports: the configuration has no `egress`."
        }
        (None, Some(list)) => return draw_queue_list(frame, area, queues, list, scroll),
    };
    frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
}

fn draw_queue_list(frame: &mut Frame<'_>, area: Rect, queues: &Queues, list: &QueueList, scroll: usize) {
    let [top, room, shared] = Layout::vertical([
        Constraint::Length(list.priorities.len() as u16 + 1),
        Constraint::Length(if list.lacking > 0 { 4 } else { 3 }),
        Constraint::Min(0),
    ])
    .areas(area);
    let rows = list.priorities.iter().zip(&queues.rows).map(|(one, rates)| {
        let wait = rates.wait_us.map_or_else(
            || "-".to_owned(),
            |wait| format!("{:.2} ms", wait as f64 / 1_000.0),
        );
        Row::new([
            Cell::from(one.priority.to_string()).style(BOLD),
            one.classes.join(" ").into(),
            right(grouped(one.packets)),
            right(wait),
            right(packets(rates.left)),
            right(bits(rates.octets)),
            right(scaled(rates.marked, "/s")),
            right(scaled(rates.dropped, "/s")),
        ])
    });
    let widths = [2, 14, 9, 10, 10, 11, 8, 8].map(Constraint::Length);
    let names = ["", "classes", "waiting", "for", "left", "", "marked", "dropped"];
    frame.render_widget(Table::new(rows, widths).header(head(names, 2)), top);
    let of = |used: u64, limit: u64, what: &str| format!("{} of {} {what}", grouped(used), grouped(limit));
    let mut words = vec![
        Line::default(),
        Line::from(format!(
            "{}; {}, {} of {} wait",
            of(list.queues, list.queues_limit, "queues"),
            of(list.packets, list.packets_limit, "packets"),
            scaled(list.octets as f64, "B"),
            scaled(list.octets_limit as f64, "B"),
        )),
    ];
    if list.lacking > 0 {
        let lacking = grouped(list.lacking);
        let words_of = format!("{lacking} directions of sessions have no queues for want of room");
        words.push(Line::styled(words_of, BAD));
    }
    frame.render_widget(Paragraph::new(words), room);
    let rows = list.shapers.iter().skip(scroll).map(|one| {
        let rate =
            |rate: Option<u64>| rate.map_or_else(|| "no limit".into(), |rate| scaled(rate as f64, "bit/s"));
        let direction = one.direction.as_deref().unwrap_or_default();
        Row::new([
            Cell::from(format!("{} {} {direction}", one.kind, one.name)).style(BOLD),
            right(rate(one.rate)),
            right(rate(Some(one.sends))),
            right(grouped(one.waiting_sessions)),
        ])
    });
    let widths = [
        Constraint::Min(24),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Length(10),
    ];
    let names = ["Shared rate", "rate", "sent", "waiting"];
    frame.render_widget(Table::new(rows, widths).header(head(names, 1)), shared);
}

fn draw_smfs(frame: &mut Frame<'_>, area: Rect, live: &Live, scroll: usize) {
    let widths = [
        Constraint::Min(16),
        Constraint::Length(21),
        Constraint::Length(9),
        Constraint::Length(20),
        Constraint::Length(8),
    ];
    let rows = live.smfs.iter().skip(scroll).map(|one| {
        let (state, style) = match one.reachable {
            true => ("reachable", GOOD),
            false => ("NO ANSWER", BAD),
        };
        Row::new([
            Cell::from(one.node.clone()).style(BOLD),
            one.peer.clone().into(),
            Cell::from(state).style(style),
            one.since.clone().into(),
            right(grouped(one.sessions as u64)),
        ])
    });
    let table = Table::new(rows, widths).header(head(["SMF", "address", "state", "since", "sessions"], 4));
    let [top, rest] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
    frame.render_widget(table, top);
    let more = live.smfs_total - live.smfs.len().min(live.smfs_total);
    if more > 0 {
        frame.render_widget(Paragraph::new(format!("and {} more", grouped(more as u64))), rest);
    }
}

/// The worst alarm, and how many there are.
fn worst_of(alarms: Option<&AlarmList>) -> Line<'static> {
    let Some((list, worst)) = alarms.and_then(|list| Some((list, list.alarms.first()?))) else {
        return Line::default();
    };
    let more = match list.alarms.len() {
        1 => String::new(),
        count => format!(" (and {} more: a)", count - 1),
    };
    let words = format!(
        "ALARM {} {} {}{more}",
        worst.severity.word(),
        worst.alarm,
        worst.object
    );
    Line::styled(words, alarm_style(worst.severity))
}

fn alarm_style(severity: Severity) -> Style {
    match severity {
        Severity::Critical | Severity::Major => BAD,
        _ => Style::new().fg(Color::Yellow),
    }
}

fn draw_alarms(frame: &mut Frame<'_>, area: Rect, alarms: Option<&AlarmList>, scroll: usize) {
    let words = match alarms {
        None => Some("The alarms come in a moment."),
        Some(list) if list.alarms.is_empty() => Some("There are no alarms."),
        Some(_) => None,
    };
    if let Some(words) = words {
        return frame.render_widget(Paragraph::new(words), area);
    }
    let rows = alarms.into_iter().flat_map(|list| &list.alarms).skip(scroll);
    let mut lines = Vec::new();
    for one in rows {
        let since = UNIX_EPOCH + Duration::from_millis(one.first_raised_ms);
        lines.push(Line::from(vec![
            Span::styled(format!("{:<9}", one.severity.word()), alarm_style(one.severity)),
            Span::styled(format!("{:<20}", one.alarm), BOLD),
            Span::raw(format!(" {}  ", one.object)),
            Span::styled(
                format!(
                    "since {}, {} x",
                    humantime::format_rfc3339_seconds(since),
                    one.count
                ),
                DIM,
            ),
        ]));
        lines.push(Line::from(format!("  {}", one.text)));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn draw_sessions(frame: &mut Frame<'_>, area: Rect, sessions: &Sessions) {
    let [search, _, list] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let words = match (&sessions.editing, sessions.text.as_str()) {
        (Some(text), _) => Line::from(vec![Span::styled("Search: ", BOLD), format!("{text}_").into()]),
        (None, text) => {
            let what = if text.is_empty() {
                "in the order of their SEIDs".to_owned()
            } else {
                format!("for `{text}`")
            };
            let more = if sessions.next.is_some() {
                ", more with n"
            } else {
                ""
            };
            Line::from(format!(
                "{} of {} sessions {what}{more}",
                sessions.rows.len(),
                grouped(sessions.total as u64)
            ))
        }
    };
    frame.render_widget(Paragraph::new(words), search);
    if let Some(fault) = &sessions.fault {
        return frame.render_widget(
            Paragraph::new(fault.as_str())
                .style(BAD)
                .wrap(Wrap { trim: true }),
            list,
        );
    }
    let widths = [18, 16, 15, 10, 12, 4].map(Constraint::Length);
    let room = usize::from(list.height).saturating_sub(1).max(1);
    let first = sessions.chosen.saturating_sub(room - 1);
    let rows = sessions.rows.iter().enumerate().skip(first).map(|(place, one)| {
        let style = if place == sessions.chosen {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        Row::new([
            Cell::from(one.seid.clone()),
            one.ue.join(" ").into(),
            one.imsi.clone().unwrap_or_default().into(),
            one.dnn.clone().unwrap_or_default().into(),
            one.node.clone().into(),
            right(one.worker.to_string()),
        ])
        .style(style)
    });
    let names = ["SEID", "UE", "IMSI", "DNN", "SMF", "wkr"];
    frame.render_widget(Table::new(rows, widths).header(head(names, 5)), list);
}

fn draw_session(frame: &mut Frame<'_>, area: Rect, session: &Session, scroll: usize) {
    if let Some(fault) = &session.fault {
        return frame.render_widget(
            Paragraph::new(fault.as_str())
                .style(BAD)
                .wrap(Wrap { trim: true }),
            area,
        );
    }
    if session.lines.is_empty() {
        return frame.render_widget(Paragraph::new(format!("Session {}", session.seid)), area);
    }
    let lines = session.lines.iter().skip(scroll).take(area.height.into());
    let lines: Vec<Line<'_>> = lines.map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines), area);
}
