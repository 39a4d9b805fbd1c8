//! gNBs and servers as UDP sockets.

use super::socket::{RECEIVE_MOST, bind, receive, send};
use super::{Config, Error};
use crate::gnb::{self, Kind};
use crate::path::{Check, Path, PathConfig, Wrong};
use crate::payload::{self, Fault, Stamp};
use crate::report::{Events, Totals};
use crate::stream::Stream;
use crate::traffic::Traffic;
use crate::{Direction, Nanos};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A gNB's or server's socket and the address it has in paths.
#[derive(Debug)]
struct Socket {
    address: IpAddr,
    port: u16,
    socket: UdpSocket,
}

impl Socket {
    fn bind(address: IpAddr, port: u16) -> Result<Socket, Error> {
        let at = SocketAddr::new(address, port);
        let socket = bind(at)?;
        let port = socket
            .local_addr()
            .map_err(|error| Error::Bind { address: at, error })?
            .port();
        Ok(Socket {
            address,
            port,
            socket,
        })
    }
}

/// Both sides of the user plane.
#[derive(Debug)]
pub(super) struct UserPlane {
    gnbs: Vec<Socket>,
    servers: Vec<Socket>,
    upf: SocketAddr,
    paths: Vec<Path>,
    sessions: u32,
    uplink: Stream,
    downlink: Stream,
    events: Events,
    packet: Vec<u8>,
}

impl UserPlane {
    pub(super) fn bind(config: &Config) -> Result<UserPlane, Error> {
        let gnbs = config.smf.profile.gnbs.iter();
        let gnbs = gnbs
            .map(|gnb| Socket::bind(*gnb, config.gnb_port))
            .collect::<Result<_, _>>()?;
        let mut port = config.server_port;
        let mut servers = Vec::new();
        let ipv4 = config
            .server_ipv4
            .filter(|_| config.smf.profile.pdu_type.has_ipv4())
            .map(IpAddr::V4);
        let ipv6 = config
            .server_ipv6
            .filter(|_| config.smf.profile.pdu_type.has_ipv6())
            .map(IpAddr::V6);
        for address in ipv4.into_iter().chain(ipv6) {
            let server = Socket::bind(address, port)?;
            port = server.port;
            servers.push(server);
        }
        Ok(UserPlane {
            gnbs,
            servers,
            upf: SocketAddr::new(config.upf_n3, config.upf_gtpu_port),
            paths: Vec::new(),
            sessions: 0,
            uplink: Stream::new(Direction::Uplink, 0, 0..0, &config.traffic),
            downlink: Stream::new(Direction::Downlink, 0, 0..0, &config.traffic),
            events: Events::default(),
            packet: vec![0; super::socket::LONGEST],
        })
    }

    /// The servers' addresses (unspecified where there is none) and port.
    pub(super) fn servers(&self) -> (Ipv4Addr, Ipv6Addr, u16) {
        let (mut ipv4, mut ipv6, mut port) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, 0);
        for server in &self.servers {
            port = server.port;
            match server.address {
                IpAddr::V4(address) => ipv4 = address,
                IpAddr::V6(address) => ipv6 = address,
            }
        }
        (ipv4, ipv6, port)
    }

    /// Traffic starts on these paths.
    pub(super) fn start(&mut self, config: &Config, paths: &[PathConfig], now: Nanos) -> Result<(), Error> {
        let must = "such that the UEs' ports stay below 65536";
        let bad = |_| {
            Error::Config(crate::smf::ConfigError {
                field: "ue_port",
                must,
            })
        };
        self.paths = paths
            .iter()
            .map(|path| Path::new(*path).map_err(bad))
            .collect::<Result<_, _>>()?;
        // Paths of one session follow each other.
        let mut sessions: Vec<u32> = paths.iter().map(|path| path.session).collect();
        sessions.dedup();
        self.sessions = sessions.len() as u32;
        let (flows, traffic): (u32, &Traffic) = (self.paths.len() as u32, &config.traffic);
        self.uplink = Stream::new(Direction::Uplink, flows, 0..flows, traffic);
        self.downlink = Stream::new(Direction::Downlink, flows, 0..flows, traffic);
        let (uplink, downlink) = traffic.rates();
        self.uplink.start(uplink, now);
        self.downlink.start(downlink, now);
        Ok(())
    }

    pub(super) fn sessions(&self) -> u32 {
        self.sessions
    }

    pub(super) fn totals(&self) -> Totals {
        let mut events = self.events;
        events.link_full = self.uplink.full + self.downlink.full;
        Totals {
            uplink: self.uplink.tracker.meter().clone(),
            downlink: self.downlink.tracker.meter().clone(),
            uplink_offered: self.uplink.schedule.offered(),
            downlink_offered: self.downlink.schedule.offered(),
            events,
        }
    }

    /// Sends the packets that are due: whether there were any.
    pub(super) fn send(&mut self, now: Nanos) -> bool {
        let UserPlane {
            gnbs,
            servers,
            upf,
            paths,
            packet,
            ..
        } = self;
        let before = self.uplink.schedule.offered().taken + self.downlink.schedule.offered().taken;
        self.uplink.send_due(now, paths, |path, stamp, inner| {
            let Some(gnb) = gnbs.iter().find(|gnb| gnb.address == path.config().gnb.address) else {
                return false;
            };
            let datagram = &mut packet[..path.gtpu_length() + inner];
            let written = path.write_gpdu(stamp, datagram).is_some();
            written && send(&gnb.socket, datagram, *upf).unwrap_or(false)
        });
        self.downlink.send_due(now, paths, |path, stamp, inner| {
            let config = path.config();
            let Some(server) = servers.iter().find(|server| server.address == config.server) else {
                return false;
            };
            let datagram = &mut packet[..inner - path.inner_headers()];
            let to = SocketAddr::new(config.ue, path.ports(stamp.sequence).0);
            let written = payload::write(stamp, datagram).is_some();
            written && send(&server.socket, datagram, to).unwrap_or(false)
        });
        self.uplink.schedule.offered().taken + self.downlink.schedule.offered().taken > before
    }

    /// Reads the received packets: whether there were any.
    pub(super) fn receive(&mut self, now: Nanos, buffer: &mut [u8]) -> bool {
        let mut busy = false;
        for at in 0..self.gnbs.len() {
            for _ in 0..RECEIVE_MOST {
                let Ok(Some((length, from))) = receive(&self.gnbs[at].socket, buffer) else {
                    break;
                };
                self.see_gtpu(now, at, from, &buffer[..length]);
                busy = true;
            }
        }
        for at in 0..self.servers.len() {
            for _ in 0..RECEIVE_MOST {
                let Ok(Some((length, from))) = receive(&self.servers[at].socket, buffer) else {
                    break;
                };
                self.see_payload(now, from, &buffer[..length]);
                busy = true;
            }
        }
        busy
    }

    fn see_gtpu(&mut self, now: Nanos, at: usize, from: SocketAddr, datagram: &[u8]) {
        let message = gnb::message(datagram).filter(|_| from.ip() == self.upf.ip());
        let Some(message) = message else {
            self.events.unexpected += 1;
            return;
        };
        match message.kind {
            Kind::GPdu => {
                let seen = gnb::see(&self.paths, self.gnbs[at].address, &message, Check::Addresses);
                self.downlink.count(now, seen);
            }
            Kind::EchoRequest => {
                self.events.echo_requests += 1;
                let answer = gnb::echo_response(message.sequence);
                // One that cannot be sent is lost like any other datagram.
                let _ = send(&self.gnbs[at].socket, &answer, from);
            }
            Kind::EndMarker => self.events.end_markers += 1,
            Kind::ErrorIndication => self.events.error_indications += 1,
            Kind::EchoResponse | Kind::Other => self.events.unexpected += 1,
        }
    }

    fn see_payload(&mut self, now: Nanos, from: SocketAddr, datagram: &[u8]) {
        match self.check_payload(from, datagram) {
            Ok((stamp, octets)) => self.uplink.count_whole(now, &stamp, octets),
            Err(wrong) => self.uplink.count(now, Err(wrong)),
        }
    }

    /// A payload that came to a server, from the UE that sent it.
    fn check_payload(&self, from: SocketAddr, datagram: &[u8]) -> Result<(Stamp, u32), Wrong> {
        let stamp = payload::read(datagram).map_err(|fault| match fault {
            Fault::Foreign => Wrong::Foreign,
            Fault::DamagedHeader => Wrong::Corrupted(None),
            Fault::DamagedBody(stamp) => Wrong::Corrupted(Some(stamp.flow)),
        })?;
        let path = self.paths.get(stamp.flow as usize).ok_or(Wrong::Foreign)?;
        let sender = SocketAddr::new(path.config().ue, path.ports(stamp.sequence).0);
        if stamp.direction != Direction::Uplink || from != sender {
            return Err(Wrong::Misdirected(stamp.flow));
        }
        Ok((stamp, (datagram.len() + path.inner_headers()) as u32))
    }
}
