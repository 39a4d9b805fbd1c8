//! What becomes of packets: forwards, and the marks of QERs.

use flow::{
    AdjacencyId, Forward, ForwardFlags, ForwardKind, InstanceId, Mark, OuterAddresses, PortId, Template,
};

use super::field::{Bound, CodecError, Field, Reader, Wire, Writer};
use super::network::{ADJACENCY, INSTANCE, MIRROR};

const KIND: Field = Field::most("forward kind", 6);
const KINDS: &[ForwardKind] = &[
    ForwardKind::Drop,
    ForwardKind::Buffer,
    ForwardKind::Tunnel,
    ForwardKind::Plain,
    ForwardKind::Punt,
    ForwardKind::Unchanged,
    ForwardKind::Redirect,
];
/// All but [`ForwardFlags::MIRROR`]: the parts say that there is one.
const FLAGS: Field = Field::bits("forward flags", 0xff & !(ForwardFlags::MIRROR.bits() as u64));
const PARTS: Field = Field::bits("forward parts", 1);
const HAS_MIRROR: u8 = 1;
const DSCP: Field = Field::most_or("DSCP", 63, NO_DSCP as u64);
const NO_DSCP: u8 = 0xff;
const TEID: Field = Field::any("TEID");
const SOURCE_PORT: Field = Field::any("source port");
const TOS: Field = Field::any("TOS");
const ADDRESS: Field = Field::any("outer address");
const MARK: Field = Field::any("mark");

/// The IP version of the outer header: of tunnels alone.
const fn outer(kind: ForwardKind) -> Field {
    match kind {
        ForwardKind::Tunnel => Field::new("outer header", Bound::OneOf(&[4, 6])),
        _ => Field::zero("outer header"),
    }
}

fn put_template(template: &Template, to: &mut Writer<'_>) {
    to.u32(&TEID, template.teid);
    to.u16(&SOURCE_PORT, template.source_port);
    to.u8(&TOS, template.tos);
    to.reserved(1);
    match &template.addresses {
        OuterAddresses::V4 { source, destination } => {
            to.array(source);
            to.array(destination);
        }
        OuterAddresses::V6 { source, destination } => {
            to.array(source);
            to.array(destination);
        }
    }
}

fn take_template(version: u8, from: &mut Reader<'_>) -> Result<Template, CodecError> {
    let (teid, source_port, tos) = (from.u32(&TEID)?, from.u16(&SOURCE_PORT)?, from.u8(&TOS)?);
    from.reserved(1)?;
    let addresses = match version {
        4 => OuterAddresses::V4 {
            source: from.array(&ADDRESS)?,
            destination: from.array(&ADDRESS)?,
        },
        _ => OuterAddresses::V6 {
            source: from.array(&ADDRESS)?,
            destination: from.array(&ADDRESS)?,
        },
    };
    Ok(Template {
        teid,
        addresses,
        source_port,
        tos,
    })
}

/// Without its slot, which is the octet before.
impl Wire for Forward {
    fn put(&self, to: &mut Writer<'_>) {
        to.u8(&KIND, self.kind as u8);
        to.u8(&FLAGS, self.flags.bits());
        to.u8(
            &outer(self.kind),
            self.template.map_or(0, |template| match template.addresses {
                OuterAddresses::V4 { .. } => 4,
                OuterAddresses::V6 { .. } => 6,
            }),
        );
        to.u32(&ADJACENCY, self.adjacency.0);
        to.u16(&INSTANCE, self.egress.0);
        to.u16(
            &MIRROR.only_if(self.mirror.is_some()),
            self.mirror.map_or(0, |port| port.0),
        );
        to.u8(&PARTS, u8::from(self.mirror.is_some()) * HAS_MIRROR);
        // The octet that says "none" would not come back.
        to.check(&Field::zero("DSCP"), (self.dscp == Some(NO_DSCP)).into());
        to.u8(&DSCP, self.dscp.unwrap_or(NO_DSCP));
        to.reserved(2);
        if let Some(template) = &self.template {
            put_template(template, to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let kind = from.place(&KIND, KINDS)?;
        let flags = ForwardFlags::from_bits(from.u8(&FLAGS)?);
        let version = from.u8(&outer(kind))?;
        let adjacency = AdjacencyId(from.u32(&ADJACENCY)?);
        let egress = InstanceId(from.u16(&INSTANCE)?);
        let mirror = from.u16(&MIRROR)?;
        let has_mirror = from.u8(&PARTS)? & HAS_MIRROR != 0;
        MIRROR.only_if(has_mirror).check(mirror.into())?;
        let dscp = Some(from.u8(&DSCP)?).filter(|dscp| *dscp != NO_DSCP);
        from.reserved(2)?;
        let template = match version {
            0 => None,
            _ => Some(take_template(version, from)?),
        };
        Ok(Self {
            kind,
            flags,
            egress,
            adjacency,
            template,
            dscp,
            mirror: has_mirror.then_some(PortId(mirror)),
        })
    }
}

/// A mark has no values of what it does not have.
fn check_mark(mark: Mark) -> Result<(), CodecError> {
    let again = match mark.sci() {
        Some(sci) => Mark::with_sci_only(sci),
        None => {
            let only_rqi = Mark::NONE.with_rqi(mark.rqi());
            let with_qfi = mark.qfi().map_or(only_rqi, |qfi| only_rqi.with_qfi(qfi));
            mark.ppi().map_or(with_qfi, |ppi| with_qfi.with_ppi(ppi))
        }
    };
    Field::bits("mark", again.bits().into()).check(mark.bits().into())
}

impl Wire for Mark {
    fn put(&self, to: &mut Writer<'_>) {
        to.verify(check_mark(*self));
        to.u16(&MARK, self.bits());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mark = Self::from_bits(from.u16(&MARK)?);
        check_mark(mark)?;
        Ok(mark)
    }
}
