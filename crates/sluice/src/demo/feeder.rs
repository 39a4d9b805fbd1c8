//! The simulator on a worker's own thread: between two polls of the worker it checks the packets that left the worker,
//! and sends the packets that are due. No packet waits for another core, so that the load is offered in time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flow::Nanos;
use sim::report::Totals;
use sim::{FramePort, Shard};

/// How often sums are published for the view.
const PUBLISH: Duration = Duration::from_millis(100);

enum Order {
    Take(Box<Shard>),
    Start,
    Stop,
}

/// Report of a feeder.
#[derive(Clone, Default)]
struct State {
    ready: bool,
    totals: Totals,
}

/// The simulator's part on one worker's thread.
pub struct Feeder<P> {
    port: P,
    orders: Receiver<Order>,
    shard: Option<Box<Shard>>,
    state: Arc<Mutex<State>>,
    next: Nanos,
}

/// The handle by which another thread directs a feeder.
pub struct Director {
    orders: Sender<Order>,
    state: Arc<Mutex<State>>,
}

/// A feeder on `port`, and its handle.
pub fn feeder<P: FramePort>(port: P) -> (Director, Feeder<P>) {
    let (sender, receiver) = channel();
    let state = Arc::new(Mutex::new(State::default()));
    let director = Director {
        orders: sender,
        state: Arc::clone(&state),
    };
    (
        director,
        Feeder {
            port,
            orders: receiver,
            shard: None,
            state,
            next: Nanos(0),
        },
    )
}

impl<P: FramePort> Feeder<P> {
    /// One turn: whether the shard is at work, so that the thread must not sleep.
    pub fn poll(&mut self, now: Nanos) -> bool {
        if let Ok(order) = self.orders.try_recv() {
            self.obey(order, now);
        }
        let Some(shard) = &mut self.shard else {
            return false;
        };
        shard.poll(now, &mut self.port);
        if now >= self.next {
            self.next = now + PUBLISH;
            self.publish();
        }
        true
    }

    fn obey(&mut self, order: Order, now: Nanos) {
        match (order, &mut self.shard) {
            (Order::Take(shard), _) => self.shard = Some(shard),
            (Order::Start, Some(shard)) => {
                shard.start(now);
            }
            (Order::Stop, Some(shard)) => shard.stop(),
            (Order::Start | Order::Stop, None) => {}
        }
    }

    fn publish(&self) {
        let Some(shard) = &self.shard else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State {
            ready: shard.is_ready(),
            totals: shard.totals(),
        };
    }
}

impl Director {
    /// Gives the feeder its shard.
    pub fn take(&self, shard: Shard) {
        self.order(Order::Take(Box::new(shard)));
    }

    /// Starts the traffic.
    pub fn start(&self) {
        self.order(Order::Start);
    }

    /// Ends the traffic; packets in transit are still received.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    /// Whether the shard knows its gateways.
    pub fn is_ready(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ready
    }

    /// The sums that were last published.
    pub fn totals(&self) -> Totals {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .totals
            .clone()
    }

    fn order(&self, order: Order) {
        // A feeder that is gone went with its thread, whose end is noticed where it is joined.
        let _ = self.orders.send(order);
    }
}
