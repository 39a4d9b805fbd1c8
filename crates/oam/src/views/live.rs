//! The control thread's part of what is shown each second.

use flow::Nanos;
use pfcp::MessageType;
use rules::network::{Instance, Roles};
use upf::Control;

use super::ports::ports;
use super::rows::{associations, date};
use crate::values::{LiveControl, LiveInstance, LiveNode, LiveSessions, LiveSmf, PlacedInstance, Rate};

/// SMFs that are shown at most.
const MOST_SMFS: usize = 64;

/// What control says of this moment.
#[must_use]
pub fn live(now: Nanos, control: &Control) -> LiveControl {
    let peers = associations(control, None, MOST_SMFS);
    LiveControl {
        node: node(now, control),
        sessions: sessions(control),
        instances: control
            .network()
            .instances()
            .iter()
            .map(|instance| placed(control, instance))
            .collect(),
        ports: ports(control),
        smfs: peers.associations.iter().map(LiveSmf::from).collect(),
        smfs_total: peers.total,
    }
}

fn node(now: Nanos, control: &Control) -> LiveNode {
    let config = control.endpoint().config();
    LiveNode {
        node: config.node.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        addresses: control.addresses().iter().map(ToString::to_string).collect(),
        since: date(control, Nanos::ZERO.into()),
        uptime_s: now.since(Nanos::ZERO).as_secs(),
        load: control.admission().load(),
        overloaded: control.admission().is_overloaded(),
    }
}

fn sessions(control: &Control) -> LiveSessions {
    let endpoint = control.endpoint();
    let of = |message_type| endpoint.message_counters().of(message_type);
    // A request is refused or served when it is answered.
    let served = |request, response| Rate::of(of(response).sent.saturating_sub(of(request).refused));
    LiveSessions {
        now: endpoint.sessions().count().sessions,
        most: endpoint.config().sessions.max_sessions as usize,
        waiting: control.admission().waiting(),
        set_up: served(
            MessageType::SESSION_ESTABLISHMENT_REQUEST,
            MessageType::SESSION_ESTABLISHMENT_RESPONSE,
        ),
        refused: Rate::of(of(MessageType::SESSION_ESTABLISHMENT_REQUEST).refused),
        modified: served(
            MessageType::SESSION_MODIFICATION_REQUEST,
            MessageType::SESSION_MODIFICATION_RESPONSE,
        ),
        deleted: served(
            MessageType::SESSION_DELETION_REQUEST,
            MessageType::SESSION_DELETION_RESPONSE,
        ),
    }
}

fn placed(control: &Control, instance: &Instance) -> PlacedInstance {
    let roles = [
        (Roles::N3, "n3"),
        (Roles::N6, "n6"),
        (Roles::N9, "n9"),
        (Roles::N4U, "n4u"),
    ];
    let has = |(role, _): &(Roles, &str)| instance.roles.intersects(*role);
    PlacedInstance {
        instance: LiveInstance {
            instance: instance.name.to_string(),
            roles: roles
                .iter()
                .filter(|role| has(role))
                .map(|(_, name)| (*name).to_owned())
                .collect(),
            port: control.port_links().name(instance.port),
            vlan: instance.vlan.map(|vlan| vlan.to_string()),
            addresses: instance.addresses().map(|address| address.to_string()).collect(),
            ..LiveInstance::default()
        },
        port: instance.port.index(),
    }
}
