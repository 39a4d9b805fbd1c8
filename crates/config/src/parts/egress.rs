//! Queues for packets that leave: their checks, and what the network has of them.

use flow::meter::Rate;
use packet::Qfi;
use rules::network::{
    Egress, EgressClass, EgressClassError, EgressClasses, InstanceEgress, QueueManagement, Wred, WredCurve,
};
use worker::EgressLimits;

use crate::bounded::Bounded;
use crate::error::Fault;
use crate::schema::{AqmConfig, Config, EgressClassConfig, InstanceEgressConfig, PolicerKbit, WredConfig};

fn rate(kbit: Option<PolicerKbit>) -> Rate {
    kbit.map_or(Rate::UNLIMITED, |kbit| Rate::from_kbit(kbit.value()))
}

impl From<&InstanceEgressConfig> for InstanceEgress {
    fn from(config: &InstanceEgressConfig) -> Self {
        Self {
            rate: rate(config.kbit),
        }
    }
}

fn class(config: &EgressClassConfig) -> EgressClass {
    let qfi = |qfi: &Bounded<0, 63>| Qfi::from_low_bits(qfi.value() as u8);
    EgressClass {
        name: config.name.value.clone(),
        qfis: config.qfis.iter().map(qfi).collect(),
        priority: config.priority.value() as u8,
        weight: config.weight.value() as u8,
        octets: config.bytes.value() as u32,
        management: match config.aqm {
            AqmConfig::TailDrop => QueueManagement::TailDrop,
            AqmConfig::Codel => QueueManagement::CoDel,
            AqmConfig::L4s => QueueManagement::L4s,
            AqmConfig::Wred(config) => QueueManagement::Wred(wred(&config)),
        },
    }
}

fn wred(config: &WredConfig) -> Wred {
    let curve = |min: u64, max: u64, one_in: Bounded<1, 255>| WredCurve {
        min: min as u32,
        max: max as u32,
        one_in: one_in.value() as u8,
    };
    let (min, max) = (config.min_bytes.value(), config.max_bytes.value());
    Wred {
        green: curve(min, max, config.one_in),
        yellow: match &config.yellow {
            Some(own) => curve(own.min_bytes.value(), own.max_bytes.value(), own.one_in),
            // Above its lower threshold, where halves are one.
            None => curve(min / 2, (max / 2).max(min / 2 + 1), config.one_in),
        },
        weight_log2: config.weight_log2.value() as u8,
    }
}

impl Config {
    /// How packets wait before they leave.
    pub(crate) fn egress(&self) -> Option<Egress> {
        let egress = self.egress.as_ref()?;
        Some(Egress {
            classes: EgressClasses::new(egress.classes.iter().map(class).collect()).ok()?,
            ports: self.ports.iter().map(|port| rate(port.egress_kbit)).collect(),
        })
    }

    /// Room for packets that wait before they leave, of one of this number of workers; `None` without queues.
    #[must_use]
    pub fn egress_limits(&self, workers: usize) -> Option<EgressLimits> {
        let egress = self.egress.as_ref()?;
        let packets = egress.packets(self.dpdk.buffers.value()) as usize;
        Some(EgressLimits {
            packets: packets.div_ceil(workers),
            octets: egress.bytes.size().div_ceil(workers),
            queues: egress.queues.size().div_ceil(workers),
        })
    }
}

/// Finds the first value that contradicts another.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let with_queues = config.instances.iter().find(|instance| instance.egress.is_some());
    let Some(egress) = &config.egress else {
        let instance = with_queues.map(|instance| {
            let name = &instance.name.value;
            Fault::new(
                &instance.name,
                format!("instance `{name}`: egress: there are no classes of queues (`egress` of the file)"),
            )
        });
        let port = config.ports.iter().find(|port| port.egress_kbit.is_some());
        let message = "egress_kbit: there are no classes of queues (`egress` of the file)";
        let port = port.map(|port| Fault::of_port(&port.name, message));
        return instance.or(port).map_or(Ok(()), Err);
    };
    check_classes(&egress.classes)?;
    check_room(config)?;
    check_ports(config)
}

fn check_classes(classes: &[EgressClassConfig]) -> Result<(), Fault> {
    let Err(error) = EgressClasses::new(classes.iter().map(class).collect()) else {
        return Ok(());
    };
    let at = |is: &dyn Fn(&EgressClassConfig) -> bool| classes.iter().rfind(|class| is(class));
    let place = match &error {
        EgressClassError::Number(_) => classes.last(),
        EgressClassError::Name(name) | EgressClassError::Bounds(name) | EgressClassError::Wred(name) => {
            at(&|class| class.name.value == *name)
        }
        EgressClassError::Qfi(qfi) => {
            at(&|class| class.qfis.iter().any(|one| one.value() == u64::from(qfi.get())))
        }
    };
    let fault = |place: &EgressClassConfig| Fault::new(&place.name, format!("egress.classes: {error}"));
    place.map_or(Ok(()), |place| Err(fault(place)))
}

/// Packets that wait are missing where packets come in.
fn check_room(config: &Config) -> Result<(), Fault> {
    let Some(egress) = &config.egress else {
        return Ok(());
    };
    let buffers = config.dpdk.buffers.value();
    let buffered = config.buffering.packets.as_ref();
    let queued = egress.packets(buffers);
    let held = buffered.map_or(buffers / 4, |packets| packets.value.value());
    if queued + held <= buffers / 2 {
        return Ok(());
    }
    let message = format!(
        "egress.packets: {queued} and those of buffering, {held}, are more than half of dpdk.buffers, which is {}",
        buffers / 2
    );
    Err(match (&egress.packets, buffered) {
        (Some(packets), _) => Fault::new(packets, message),
        (None, Some(packets)) => Fault::new(packets, message),
        (None, None) => Fault::new(&egress.classes[0].name, message),
    })
}

/// Packets leave by a LAG, not by its members.
fn check_ports(config: &Config) -> Result<(), Fault> {
    for port in config.ports.iter().filter(|port| port.egress_kbit.is_some()) {
        if config.lag_of(&port.name.value).is_some() {
            let message = "egress_kbit: it is a member of a LAG, which may have one";
            return Err(Fault::of_port(&port.name, message));
        }
    }
    Ok(())
}
