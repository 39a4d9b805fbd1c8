//! `sluice top`: a running daemon in a terminal, once a second, from the same stream as the page's.
//!
//! One thread reads the stream, one asks what keys want; the first draws and reads keys.

mod app;
mod draw;
mod numbers;
mod queues;
mod search;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use hyper::Method;
use oam::rest::{ApiRequest, get, stream};
use oam::values::{AlarmList, Live, QueueList, SessionDetail, SessionList};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use app::{App, Ask, Next, Told};
use draw::draw;
use search::meanings;

/// How long a key is waited for before it is looked what has come.
const TURN: Duration = Duration::from_millis(100);
/// After a connection is lost, the next is tried.
const RETRY: Duration = Duration::from_secs(1);
/// Sessions of a page.
const ROWS: usize = 100;
/// Pages that a search goes through, of which each has 20,000 sessions looked at.
const MOST_PAGES: usize = 50;

/// Shows the daemon behind `socket` until a key or `stop` ends it.
///
/// # Errors
/// The terminal's.
pub fn run(socket: &Path, stop: &AtomicBool) -> io::Result<()> {
    let (tell, told) = mpsc::channel();
    let (ask, asked) = mpsc::channel();
    let (live, answers) = (socket.to_owned(), socket.to_owned());
    let tell_live = tell.clone();
    // They end with the process, or when they find that no one listens.
    thread::spawn(move || follow(&live, &tell_live));
    thread::spawn(move || answer(&answers, &asked, &tell));
    let mut terminal = ratatui::try_init()?;
    let done = show(&mut terminal, stop, &ask, &told);
    ratatui::restore();
    done
}

fn show(
    terminal: &mut DefaultTerminal,
    stop: &AtomicBool,
    ask: &Sender<Ask>,
    told: &Receiver<Told>,
) -> io::Result<()> {
    let mut app = App::new();
    let mut has_changed = true;
    while !stop.load(Ordering::Relaxed) {
        for told in told.try_iter() {
            app.take(told);
            has_changed = true;
        }
        // Where the thread is gone, the daemon is shown as lost.
        app.due(Instant::now()).map(|due| ask.send(due));
        if has_changed {
            terminal.draw(|frame| draw(frame, &app))?;
        }
        has_changed = event::poll(TURN)?;
        if !has_changed {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match app.key(key) {
                Next::Quit => return Ok(()),
                Next::Ask(wanted) => drop(ask.send(wanted)),
                Next::Stay => {}
            }
        }
    }
    Ok(())
}

/// Passes on what the daemon says each second, over a new connection where one ends.
fn follow(socket: &Path, tell: &Sender<Told>) {
    loop {
        let request = ApiRequest {
            method: Method::GET,
            target: "/v1/live",
        };
        let mut is_heard = true;
        let ended = stream(socket, request, |line| {
            let live = line.strip_prefix("data: ").map(serde_json::from_str::<Live>);
            if let Some(Ok(live)) = live {
                is_heard = tell.send(Told::Live(Box::new(live))).is_ok();
            }
            is_heard
        });
        let why = ended.map_or_else(|error| error.to_string(), |()| "the daemon has ended".into());
        if !is_heard || tell.send(Told::Lost(why)).is_err() {
            return;
        }
        thread::sleep(RETRY);
    }
}

/// Answers what keys ask for.
fn answer(socket: &Path, asked: &Receiver<Ask>, tell: &Sender<Told>) {
    for ask in asked {
        let told = match ask {
            Ask::Sessions { text, after } => Told::Sessions(sessions(socket, &text, after)),
            Ask::Session { seid } => {
                let detail = get::<SessionDetail>(socket, &format!("/v1/sessions/{seid}"));
                Told::Session(Box::new(detail.map_err(|error| error.to_string())))
            }
            Ask::Queues => {
                let list = get::<QueueList>(socket, "/v1/queues");
                Told::Queues(Instant::now(), list.map_err(|error| error.to_string()))
            }
            Ask::Alarms => {
                let list = get::<AlarmList>(socket, "/v1/alarms");
                Told::Alarms(list.map_err(|error| error.to_string()))
            }
        };
        if tell.send(told).is_err() {
            return;
        }
    }
}

/// Sessions that a text means: of its meanings, the first of which there is any.
fn sessions(socket: &Path, text: &str, after: Option<String>) -> Result<SessionList, String> {
    let mut found = None;
    for meaning in meanings(text) {
        let list = page(socket, &meaning, after.clone())?;
        if !list.sessions.is_empty() {
            return Ok(list);
        }
        found = Some(list);
    }
    found.ok_or_else(|| "nothing is searched for".to_owned())
}

/// A page of rows: where many sessions are looked at one by one, the first that has any.
fn page(socket: &Path, meaning: &str, mut after: Option<String>) -> Result<SessionList, String> {
    let mut pages = 0;
    loop {
        let behind = after
            .as_ref()
            .map_or_else(String::new, |after| format!("after={after}&"));
        let target = format!("/v1/sessions?{meaning}{behind}limit={ROWS}");
        let list: SessionList = get(socket, &target).map_err(|error| error.to_string())?;
        pages += 1;
        if !list.sessions.is_empty() || list.next.is_none() || pages >= MOST_PAGES {
            return Ok(list);
        }
        after = list.next;
    }
}
