//! What `sluice top` shows, and what its keys do. It knows no terminal and no socket.

use std::time::{Duration, Instant};

use oam::values::{AlarmList, Live, QueueList, SessionDetail, SessionList, SessionRow};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::queues::Queues;

/// How often an open session is asked for again.
pub const REFRESH: Duration = Duration::from_secs(2);
/// The same of the alarms.
pub const ALARMS: Duration = Duration::from_secs(2);

/// The views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Overview,
    Drops,
    Queues,
    Smfs,
    Alarms,
    Sessions,
    Session,
    Help,
}

/// A question to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Sessions that a text means, behind a SEID.
    Sessions { text: String, after: Option<String> },
    /// One session.
    Session { seid: String },
    /// The alarms.
    Alarms,
    /// The queues before ports.
    Queues,
}

/// What the daemon says.
pub enum Told {
    Live(Box<Live>),
    /// There is no connection: why.
    Lost(String),
    Sessions(Result<SessionList, String>),
    Session(Box<Result<SessionDetail, String>>),
    Alarms(Result<AlarmList, String>),
    /// The queues, as they were at a time.
    Queues(Instant, Result<QueueList, String>),
}

/// What follows a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Stay,
    Ask(Ask),
    Quit,
}

/// A list of sessions.
#[derive(Default)]
pub struct Sessions {
    /// What is searched for; empty: all.
    pub text: String,
    /// What is being written.
    pub editing: Option<String>,
    pub rows: Vec<SessionRow>,
    pub total: usize,
    pub next: Option<String>,
    /// The row that is marked.
    pub chosen: usize,
    /// Why there are none.
    pub fault: Option<String>,
}

/// One session, as text.
#[derive(Default)]
pub struct Session {
    pub seid: String,
    pub lines: Vec<String>,
    pub fault: Option<String>,
    /// When it was asked for.
    pub asked: Option<Instant>,
}

/// All of it.
pub struct App {
    pub view: View,
    pub live: Option<Box<Live>>,
    /// Why there is no connection.
    pub lost: Option<String>,
    /// What is wrong, once that is known.
    pub alarms: Option<AlarmList>,
    /// When the alarms were asked for.
    alarms_asked: Option<Instant>,
    pub queues: Queues,
    pub sessions: Sessions,
    pub session: Session,
    /// Lines above the first that is shown, where there are more than fit.
    pub scroll: usize,
}

impl App {
    pub fn new() -> Self {
        Self {
            view: View::Overview,
            live: None,
            lost: None,
            alarms: None,
            alarms_asked: None,
            queues: Queues::default(),
            sessions: Sessions::default(),
            session: Session::default(),
            scroll: 0,
        }
    }

    /// Takes in what the daemon says.
    pub fn take(&mut self, told: Told) {
        match told {
            Told::Live(live) => (self.live, self.lost) = (Some(live), None),
            Told::Lost(why) => self.lost = Some(why),
            Told::Sessions(Ok(list)) => {
                let SessionList {
                    sessions,
                    next,
                    total,
                } = list;
                let shown = &mut self.sessions;
                (shown.rows, shown.next, shown.total, shown.fault) = (sessions, next, total, None);
                shown.chosen = shown.chosen.min(shown.rows.len().saturating_sub(1));
            }
            // With the connection the figures are lost, too, which is shown.
            Told::Alarms(list) => self.alarms = list.ok(),
            Told::Queues(at, told) => self.queues.take(at, told),
            Told::Sessions(Err(why)) => {
                self.sessions.rows.clear();
                self.sessions.fault = Some(why);
            }
            Told::Session(told) => match *told {
                Ok(detail) if detail.seid == self.session.seid => {
                    self.session.lines = detail.text().lines().map(str::to_owned).collect();
                    self.session.fault = None;
                }
                // That of a session which was left meanwhile.
                Ok(_) => {}
                Err(why) => self.session.fault = Some(why),
            },
        }
    }

    /// What is to be asked again now.
    pub fn due(&mut self, now: Instant) -> Option<Ask> {
        let is_due = |asked: Instant| now.duration_since(asked) >= ALARMS;
        if self.alarms_asked.is_none_or(is_due) {
            self.alarms_asked = Some(now);
            return Some(Ask::Alarms);
        }
        if self.view == View::Queues {
            return self.queues.is_due(now).then_some(Ask::Queues);
        }
        let session = &mut self.session;
        let is_due = session
            .asked
            .is_none_or(|asked| now.duration_since(asked) >= REFRESH);
        if self.view != View::Session || !is_due {
            return None;
        }
        session.asked = Some(now);
        Some(Ask::Session {
            seid: session.seid.clone(),
        })
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Next {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Next::Quit;
        }
        if let Some(text) = self.sessions.editing.take() {
            return self.write(text, key.code);
        }
        match (self.view, key.code) {
            (_, KeyCode::Char('q')) => Next::Quit,
            (View::Session, KeyCode::Esc | KeyCode::Backspace | KeyCode::Left) => self.go(View::Sessions),
            (_, KeyCode::Esc | KeyCode::Char('o')) => self.go(View::Overview),
            (_, KeyCode::Char('d')) => self.go(View::Drops),
            (_, KeyCode::Char('e')) => self.go(View::Queues),
            (_, KeyCode::Char('m')) => self.go(View::Smfs),
            (_, KeyCode::Char('a')) => self.go(View::Alarms),
            (_, KeyCode::Char('?' | 'h')) => self.go(View::Help),
            (_, KeyCode::Char('s')) => {
                self.go(View::Sessions);
                self.ask_sessions(None)
            }
            (_, KeyCode::Char('/')) => {
                self.go(View::Sessions);
                self.sessions.editing = Some(String::new());
                Next::Stay
            }
            (View::Sessions, code) => self.sessions_key(code),
            (_, code) => self.scroll_key(code),
        }
    }

    fn go(&mut self, view: View) -> Next {
        (self.view, self.scroll) = (view, 0);
        Next::Stay
    }

    fn ask_sessions(&mut self, after: Option<String>) -> Next {
        self.sessions.chosen = 0;
        Next::Ask(Ask::Sessions {
            text: self.sessions.text.clone(),
            after,
        })
    }

    /// A key while a search is being written.
    fn write(&mut self, mut text: String, code: KeyCode) -> Next {
        match code {
            KeyCode::Enter => {
                self.sessions.text = text;
                return self.ask_sessions(None);
            }
            KeyCode::Esc => return Next::Stay,
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(letter) if text.len() < 64 => text.push(letter),
            _ => {}
        }
        self.sessions.editing = Some(text);
        Next::Stay
    }

    fn sessions_key(&mut self, code: KeyCode) -> Next {
        let shown = &mut self.sessions;
        let last = shown.rows.len().saturating_sub(1);
        match code {
            KeyCode::Down | KeyCode::Char('j') => shown.chosen = (shown.chosen + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => shown.chosen = shown.chosen.saturating_sub(1),
            KeyCode::Home => shown.chosen = 0,
            KeyCode::End => shown.chosen = last,
            KeyCode::Char('n') | KeyCode::PageDown => {
                if let Some(next) = shown.next.clone() {
                    return self.ask_sessions(Some(next));
                }
            }
            KeyCode::PageUp => return self.ask_sessions(None),
            KeyCode::Enter | KeyCode::Right => {
                if let Some(row) = shown.rows.get(shown.chosen) {
                    self.session = Session {
                        seid: row.seid.clone(),
                        ..Session::default()
                    };
                    return self.go(View::Session);
                }
            }
            _ => {}
        }
        Next::Stay
    }

    fn scroll_key(&mut self, code: KeyCode) -> Next {
        let lines = match self.view {
            View::Session => self.session.lines.len(),
            View::Drops => self.live.as_ref().map_or(0, |live| live.drops.len()),
            View::Queues => self.queues.shapers(),
            View::Smfs => self.live.as_ref().map_or(0, |live| live.smfs.len()),
            View::Alarms => self.alarms.as_ref().map_or(0, |list| list.alarms.len()),
            View::Overview | View::Sessions | View::Help => 0,
        };
        let last = lines.saturating_sub(1);
        self.scroll = match code {
            KeyCode::Down | KeyCode::Char('j') => self.scroll + 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll + 10,
            KeyCode::PageUp => self.scroll.saturating_sub(10),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.scroll,
        }
        .min(last);
        Next::Stay
    }
}
