//! What is seen: golden screens of 80 columns and 24 rows, and what keys lead to.

use std::fs;
use std::time::{Duration, Instant};

use oam::values::{
    AlarmList, AlarmRow, Flow, Live, LiveDrop, LiveInstance, LiveNode, LiveSessions, LiveSmf, LiveStage,
    LiveWorker, QueueList, QueuePriority, Rate, SessionList, SessionRow, SessionState, Severity,
    ShaperStatus, drop_advice,
};
use packet::DropReason;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::{ALARMS, App, Ask, Next, REFRESH, Told, View};
use super::draw::draw;

fn rate(count: u64, per_s: f64) -> Rate {
    Rate { count, per_s }
}

fn flow(packets_per_s: f64, octets_per_s: f64) -> Flow {
    Flow {
        packets: rate(1_000_000, packets_per_s),
        octets: rate(600_000_000, octets_per_s),
    }
}

fn instance(name: &str, role: &str, port: &str, link: bool) -> LiveInstance {
    LiveInstance {
        instance: name.into(),
        roles: vec![role.into()],
        port: port.into(),
        link,
        received: flow(1.02e6, 6.02e8),
        sent: flow(2.31e6, 2.3e9),
        ..LiveInstance::default()
    }
}

fn worker(number: usize, shares: [f64; 7]) -> LiveWorker {
    let names = [
        "rx",
        "parse",
        "select_worker",
        "lookup",
        "slow",
        "apply_rules",
        "tx",
    ];
    // What the API does not have is left out.
    let stage = |(name, share): (&str, f64)| {
        serde_json::from_value::<LiveStage>(serde_json::json!({"stage": name, "share": share})).unwrap()
    };
    LiveWorker {
        worker: number,
        busy: shares.iter().sum(),
        stages: names.into_iter().zip(shares).map(stage).collect(),
        received: rate(5_000_000, 1.66e6),
        sent: rate(4_900_000, 1.65e6),
        dropped: rate(7, 12.0),
        backlog: 12 * number as u64,
        ..LiveWorker::default()
    }
}

fn dropped(reason: DropReason, count: u64, per_s: f64) -> LiveDrop {
    LiveDrop {
        reason: reason.label().into(),
        count,
        per_s,
        clause: reason.clause().into(),
        explanation: reason.explain().into(),
        advice: drop_advice(reason).into(),
    }
}

fn smf(node: &str, reachable: bool, sessions: usize) -> LiveSmf {
    LiveSmf {
        node: node.into(),
        peer: "10.100.0.2:8805".into(),
        reachable,
        since: "2026-03-01T10:00:00Z".into(),
        sessions,
    }
}

fn live() -> Live {
    Live {
        time_ms: 1_800_000_000_000,
        interval_s: 1.0,
        control: true,
        node: LiveNode {
            node: "upf.5gc.example".into(),
            version: "1.2.3".into(),
            addresses: vec!["10.100.0.1:8805".into()],
            since: "2026-03-01T09:00:00Z".into(),
            uptime_s: 11_045,
            load: 12,
            overloaded: false,
        },
        sessions: LiveSessions {
            now: 10_000,
            most: 600_000,
            set_up: rate(10_007, 120.4),
            refused: rate(3, 0.0),
            ..LiveSessions::default()
        },
        uplink: flow(1.02e6, 6.02e8),
        downlink: flow(2.31e6, 2.3e9),
        instances: vec![
            instance("access", "n3", "ran", true),
            instance("internet", "n6", "dn", false),
        ],
        workers: vec![
            worker(0, [0.05, 0.09, 0.02, 0.11, 0.01, 0.19, 0.12]),
            worker(1, [0.0; 7]),
        ],
        drops: vec![
            dropped(DropReason::NotForUs, 4_711, 0.0),
            dropped(DropReason::MeterRed, 1_203, 11.5),
        ],
        smfs: vec![smf("smf.5gc.example", true, 9_990), smf("10.100.0.9", false, 10)],
        smfs_total: 2,
        ..Live::default()
    }
}

fn alarms() -> AlarmList {
    let row = |id, alarm: &str, object: &str, severity, text: &str| AlarmRow {
        id,
        alarm: alarm.into(),
        object: object.into(),
        severity,
        event_type: String::new(),
        probable_cause: String::new(),
        text: text.into(),
        first_raised_ms: 1_800_000_000_000,
        changed_ms: 1_800_000_000_000,
        count: id,
    };
    let silent = "the SMF does not answer heartbeats; it has 10 sessions";
    AlarmList {
        alarms: vec![
            row(2, "smf_lost", "10.100.0.9", Severity::Critical, silent),
            row(
                1,
                "watermark",
                "flows",
                Severity::Warning,
                "the count has reached 900000",
            ),
        ],
        omitted: 0,
        last_event: 2,
    }
}

/// Queues of which this many packets have left.
fn queues(left: u64) -> QueueList {
    let priority = |priority, class: &str, left: u64| QueuePriority {
        priority,
        classes: vec![class.into()],
        packets: left / 100,
        departed_packets: left,
        departed_octets: 1_000 * left,
        waited_us: 12_340 * left,
        marked_packets: left / 10,
        dropped: [("delay".to_owned(), left / 100), ("queue_full".to_owned(), 7)].into(),
        ..QueuePriority::default()
    };
    let shaper = |kind: &str, name: &str, direction: Option<&str>, rate| ShaperStatus {
        kind: kind.into(),
        name: name.into(),
        direction: direction.map(str::to_owned),
        rate,
        sends: 99_500_000,
        octets: left,
        waiting_sessions: 61,
        workers: Vec::new(),
    };
    QueueList {
        queues: 118_000,
        at_accelerator: 0,
        queues_limit: 131_072,
        packets: 2_000,
        packets_limit: 8_192,
        octets: 2_000_000,
        octets_limit: 16_777_216,
        lacking: 3,
        priorities: vec![priority(0, "voice", 0), priority(7, "rest", left)],
        shapers: vec![
            shaper("port", "ran", None, Some(10_000_000_000)),
            shaper("instance", "access", None, None),
            shaper("policer", "iot", Some("downlink"), Some(100_000_000)),
        ],
    }
}

#[test]
fn queues_are_asked_for_while_they_are_shown_and_have_rates_from_two_answers() {
    let mut app = App::new();
    app.take(Told::Live(Box::new(live())));
    let begin = Instant::now();
    assert_eq!((app.due(begin), app.due(begin)), (Some(Ask::Alarms), None));
    press(&mut app, KeyCode::Char('e'));
    assert!(screen(&app).contains("The queues come in a moment."));
    assert_eq!((app.due(begin), app.due(begin)), (Some(Ask::Queues), None));
    app.take(Told::Queues(begin, Ok(QueueList::default())));
    assert!(screen(&app).contains("the configuration has no `egress`"));
    app.take(Told::Queues(begin, Ok(queues(100_000))));
    let later = begin + REFRESH;
    assert_eq!(
        (app.due(later), app.due(later)),
        (Some(Ask::Alarms), Some(Ask::Queues))
    );
    app.take(Told::Queues(later, Ok(queues(140_000))));
    assert_golden("queues", &screen(&app));
    press(&mut app, KeyCode::Down);
    assert!(!screen(&app).contains("port ran") && screen(&app).contains("instance access"));
    app.take(Told::Queues(later, Err("the daemon has ended".into())));
    assert!(screen(&app).contains("the daemon has ended"));
    // A daemon that has started anew counts from nothing.
    app.take(Told::Queues(later + REFRESH, Ok(queues(0))));
    assert!(screen(&app).contains("0 p/s"), "{}", screen(&app));
}

fn row(number: u64) -> SessionRow {
    SessionRow {
        seid: format!("{number:#018x}"),
        cp_seid: "0x0000000000000001".into(),
        node: "smf.5gc.example".into(),
        ue: vec![format!("10.45.0.{number}")],
        imsi: Some(format!("00101000000000{number}")),
        dnn: Some("internet".into()),
        teids: vec!["0x00000010".into()],
        pdrs: 2,
        state: SessionState::Live,
        worker: 1,
        bucket: 7,
    }
}

fn with_sessions() -> App {
    let mut app = App::new();
    app.take(Told::Live(Box::new(live())));
    press(&mut app, KeyCode::Char('s'));
    app.take(Told::Sessions(Ok(SessionList {
        sessions: (1..=3).map(row).collect(),
        next: Some("0x0000000000000003".into()),
        total: 10_000,
    })));
    app
}

fn press(app: &mut App, code: KeyCode) -> Next {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn screen(app: &App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let rows = terminal.backend().buffer().content().chunks(80);
    let text = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    text.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Compares with the file, or writes it (`SLUICE_GOLDEN=write`).
fn assert_golden(name: &str, text: &str) {
    let path = format!("{}/src/top/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
        fs::create_dir_all(format!("{}/src/top/golden", env!("CARGO_MANIFEST_DIR"))).unwrap();
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{path}; SLUICE_GOLDEN=write writes it anew");
}

#[test]
fn each_view_fits_80_columns_and_24_rows() {
    let mut app = App::new();
    assert_golden("connecting", &screen(&app));
    app.take(Told::Live(Box::new(live())));
    assert_golden("overview", &screen(&app));
    press(&mut app, KeyCode::Char('d'));
    assert_golden("drops", &screen(&app));
    press(&mut app, KeyCode::Char('m'));
    assert_golden("smfs", &screen(&app));
    press(&mut app, KeyCode::Char('?'));
    assert_golden("help", &screen(&app));
    press(&mut app, KeyCode::Char('a'));
    assert!(screen(&app).contains("The alarms come in a moment."));
    app.take(Told::Alarms(Ok(alarms())));
    assert_golden("alarms", &screen(&app));
    press(&mut app, KeyCode::Char('o'));
    assert!(screen(&app).contains("ALARM critical smf_lost 10.100.0.9 (and 1 more: a)"));
    assert_golden("sessions", &screen(&with_sessions()));
}

#[test]
fn what_is_wrong_is_seen() {
    let mut app = App::new();
    app.take(Told::Live(Box::new(Live {
        control: false,
        ..live()
    })));
    assert!(screen(&app).lines().next().unwrap().ends_with("CONTROL IS BUSY"));
    app.take(Told::Lost("no daemon is there".into()));
    assert!(screen(&app).lines().next().unwrap().ends_with("NO CONNECTION"));
    app.take(Told::Live(Box::new(live())));
    assert!(screen(&app).lines().next().unwrap().ends_with("live"));
    let none = Live {
        drops: Vec::new(),
        ..live()
    };
    app.take(Told::Live(Box::new(none)));
    assert!(screen(&app).contains("No packet has been dropped."));
}

#[test]
fn keys_lead_into_a_session_and_back() {
    let mut app = with_sessions();
    press(&mut app, KeyCode::Down);
    assert_eq!(press(&mut app, KeyCode::Enter), Next::Stay);
    assert_eq!(app.view, View::Session);
    let begin = Instant::now();
    assert_eq!(app.due(begin), Some(Ask::Alarms));
    let asked = Some(Ask::Session {
        seid: "0x0000000000000002".into(),
    });
    assert_eq!(app.due(begin), asked);
    assert_eq!(app.due(begin + Duration::from_millis(1)), None);
    assert_eq!(app.due(begin + ALARMS), Some(Ask::Alarms));
    assert_eq!(app.due(begin + REFRESH), asked);
    app.take(Told::Session(Box::new(Err("there is no such session".into()))));
    assert!(screen(&app).contains("there is no such session"));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.due(begin + 9 * REFRESH), Some(Ask::Alarms));
    assert_eq!((app.view, app.due(begin + 9 * REFRESH)), (View::Sessions, None));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.view, View::Overview);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Next::Quit);
}

#[test]
fn a_search_is_written_and_asked_for() {
    let mut app = with_sessions();
    press(&mut app, KeyCode::Char('/'));
    for letter in "10.45.0.2q".chars() {
        assert_eq!(press(&mut app, KeyCode::Char(letter)), Next::Stay);
    }
    press(&mut app, KeyCode::Backspace);
    assert!(screen(&app).contains("Search: 10.45.0.2_"));
    let asked = Ask::Sessions {
        text: "10.45.0.2".into(),
        after: None,
    };
    assert_eq!(press(&mut app, KeyCode::Enter), Next::Ask(asked));
    let more = Ask::Sessions {
        text: "10.45.0.2".into(),
        after: Some("0x0000000000000003".into()),
    };
    assert_eq!(press(&mut app, KeyCode::Char('n')), Next::Ask(more));
    assert_eq!(
        app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
        Next::Quit
    );
}

/// However small a terminal is.
#[test]
fn small_terminals_are_no_reason_to_panic() {
    let mut app = with_sessions();
    app.take(Told::Queues(Instant::now(), Ok(queues(100_000))));
    for view in [
        KeyCode::Char('o'),
        KeyCode::Char('d'),
        KeyCode::Char('m'),
        KeyCode::Char('a'),
        KeyCode::Char('e'),
        KeyCode::Char('s'),
    ] {
        press(&mut app, view);
        for (columns, rows) in [(1, 1), (10, 3), (79, 23), (200, 60)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
            terminal.draw(|frame| draw(frame, &app)).unwrap();
        }
    }
}
