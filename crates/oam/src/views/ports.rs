//! Ports and their links, paths to GTP-U peers.

use transport::lag::LagMode;
use upf::Control;

use crate::values::{PathList, PathRow, PortList, PortRow};

/// The ports and their links, without what workers count.
#[must_use]
pub fn ports(control: &Control) -> PortList {
    let links = control.port_links();
    let ports = links.ports().enumerate();
    let mut rows: Vec<PortRow> = ports
        .map(|(place, (name, up))| PortRow::new(place, name, up))
        .collect();
    for lag in links.lags() {
        let whole = links.name(lag.port());
        if let Some(row) = rows.get_mut(lag.port().index()) {
            row.lag = Some(
                match lag.mode() {
                    LagMode::Balance => "balance",
                    LagMode::ActiveBackup => "active_backup",
                    LagMode::Lacp(_) => "lacp",
                }
                .into(),
            );
        }
        for member in lag.status() {
            let Some(row) = rows.get_mut(member.port.index()) else {
                continue;
            };
            row.member_of = Some(whole.clone());
            row.state = member.words.into();
            row.partner = member
                .partner
                .map(|end| format!("{} key {} port {} {:?}", end.system, end.key, end.port, end.state));
        }
    }
    PortList { ports: rows }
}

/// The paths to GTP-U peers of which routers said an MTU.
#[must_use]
pub fn paths(control: &Control) -> PathList {
    let row = |one: upf::PathMtu| PathRow {
        local: one.path.local,
        peer: one.path.peer,
        mtu: one.mtu,
        seconds_left: one.left.as_secs(),
    };
    PathList {
        paths: control.path_mtus().known().map(row).collect(),
    }
}
