//! A UPF of one worker on one thread and simulated time, and everything that goes in and out of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use config::Config;
use flow::{Nanos, PortId, WorkerId};
use packet::MacAddr;
use records::Entry;
use session::Random;
use upf::{Assembly, Control, RecordSink, Surroundings, assemble};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{Stats, Worker};

use crate::frames::Stations;
use crate::pcapng::Captured;
use crate::value::Fault;

/// Between two turns of the world.
const TURN: Duration = Duration::from_micros(50);
/// Turns that a request may take.
const PATIENCE: u32 = 100;
/// Where identifiers come from; part of what makes a case come out the same.
const SEED: u64 = 3;

/// The UPF and its surroundings.
pub struct World {
    pub now: Nanos,
    pub ports: Vec<String>,
    pub sent: Vec<Captured>,
    pub received: Vec<Captured>,
    /// What came in on any interface, N4 included, in order.
    pub came: Vec<Came>,
    n4: SocketAddr,
    control: Control,
    worker: Worker<MemIo>,
    wires: Wires,
    records: Records,
}

/// Something that came in, or an answer on N4.
#[derive(Clone, Debug)]
pub enum Came {
    Frame(Captured),
    Pfcp {
        time: Nanos,
        from: SocketAddr,
        to: SocketAddr,
        octets: Vec<u8>,
    },
}

/// Usage records, as they were made.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<Entry>>>);

impl RecordSink for Records {
    fn put(&mut self, entry: Entry) {
        self.0.lock().expect("no panic").push(entry);
    }

    fn refuses_sessions(&mut self) -> bool {
        false
    }
}

impl World {
    /// The UPF of this configuration, its announcements on their way.
    pub fn new(config: &Config) -> Result<Self, Fault> {
        let network = Arc::new(
            config
                .network()
                .map_err(|error| format!("sluice.yaml: {error:?}"))?,
        );
        let ports: Vec<String> = config.ports.iter().map(|port| port.name.value.clone()).collect();
        let macs: Vec<_> = (0..ports.len()).map(|port| MacAddr(stations(port).to)).collect();
        let now = Nanos(0);
        let instances = network.instances().iter();
        let around = Surroundings {
            now,
            clock_unix: 1_700_000_000,
            random: Random::from_number(SEED),
            interfaces: instances.map(|one| worker::interface(one, &macs)).collect(),
            macs,
        };
        let Assembly { mut control, workers } = assemble(config, &network, around);
        let (wires, ios) = Wires::new(1, ports.len(), 4096);
        let made = workers.into_iter().zip(ios).next();
        let ((mut worker, link), io) = made
            .filter(|_| config.workers.count.value() == 1)
            .ok_or("not one worker")?;
        // Results do not depend on the machine's speed.
        worker.slow_share_percent = 100;
        let records = Records::default();
        if config.records.is_some() {
            control.keep_records("upf.example".into(), Box::new(records.clone()));
        }
        let address = config.n4.addresses.first().ok_or("no N4 address")?.value;
        Ok(Self {
            now,
            ports,
            sent: Vec::new(),
            received: Vec::new(),
            came: Vec::new(),
            n4: SocketAddr::new(address, 8805),
            control,
            worker: Worker::new(worker, io, link).map_err(|error| format!("worker: {error}"))?,
            wires,
            records,
        })
    }

    /// One turn at the present time.
    fn turn(&mut self) {
        self.control.poll(self.now);
        self.worker.poll(self.now);
        for port in 0..self.ports.len() {
            while let Some(frame) = self.wires.from(PortId(port as u16)).pop() {
                self.received.push(Captured {
                    port,
                    time: self.now,
                    bytes: frame.bytes().to_vec(),
                });
            }
        }
    }

    /// Lets time pass, in steps that no timer is shorter than.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.turn();
            self.now = end.min(self.now + TURN.max(time / 1_000));
        }
        self.turn();
    }

    /// The place of the port with this name.
    pub fn port(&self, name: &str) -> Result<usize, Fault> {
        let place = self.ports.iter().position(|port| port == name);
        place.ok_or_else(|| format!("send.port: no port `{name}`"))
    }

    /// A frame arrives and is dealt with at once.
    pub fn send(&mut self, port: usize, bytes: &[u8]) -> Result<(), Fault> {
        let frame = Captured {
            port,
            time: self.now,
            bytes: bytes.to_vec(),
        };
        self.came.push(Came::Frame(frame.clone()));
        self.sent.push(frame);
        let queue = self.wires.to(WorkerId(0), PortId(port as u16));
        queue
            .push(MemBuf::new(bytes))
            .map_err(|_| "send: the port is full")?;
        // The second turn is for messages between control and the worker.
        self.turn();
        self.turn();
        Ok(())
    }

    /// A PFCP request from this address arrives; its answer, within the world's patience.
    pub fn ask(&mut self, from: SocketAddr, request: &[u8]) -> Option<Arc<[u8]>> {
        self.note_pfcp(from, self.n4, request);
        self.control.handle_datagram(self.now, from, self.n4, request);
        for _ in 0..PATIENCE {
            self.turn();
            if let Some(answer) = self.control.poll_transmit() {
                self.note_pfcp(self.n4, from, &answer.bytes);
                return Some(answer.bytes);
            }
            self.now = self.now + TURN;
        }
        None
    }

    fn note_pfcp(&mut self, from: SocketAddr, to: SocketAddr, octets: &[u8]) {
        self.came.push(Came::Pfcp {
            time: self.now,
            from,
            to,
            octets: octets.to_vec(),
        });
    }

    /// A response to Sluice arrives.
    pub fn receive_response(&mut self, from: SocketAddr, response: &[u8]) {
        self.control.handle_datagram(self.now, from, self.n4, response);
    }

    /// What Sluice says of its own accord.
    pub fn said(&mut self) -> Option<n4::Transmit> {
        self.control.poll_transmit()
    }

    /// The usage records that were made; none where the configuration does not want any.
    pub fn records(&self) -> Vec<Entry> {
        self.records.0.lock().expect("no panic").clone()
    }

    pub fn stats(&self) -> &Stats {
        self.worker.stats()
    }

    /// Sessions, tunnels and UE addresses that are held now.
    pub fn held(&self) -> [usize; 3] {
        let count = self.control.endpoint().sessions().count();
        [count.sessions, count.tunnels, count.addresses]
    }
}

/// The stations at a port: the far one, and ours.
pub fn stations(port: usize) -> Stations {
    let last = port as u8 + 1;
    Stations {
        from: [2, 0, 0, 0, 1, last],
        to: [2, 0, 0, 0, 0, last],
    }
}
