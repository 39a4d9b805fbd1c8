//! From a session to the form of its record. Every field of a rule is named, so that one that is added to the model
//! does not compile before it is decided what becomes of it here.

use flow::meter::{PacketState, Tokens, Window};
use flow::{InstanceId, Nanos};
use packet::Qfi;
use rules::image::{DataStatus, PacketsLeft, TokensLeft};
use rules::model;
use rules::network::PolicyId;
use rules::prefix::IpPrefix;
use usage::Moment;

use super::super::error::RecordError;
use super::super::types::{DownlinkMark, Frame, PendingReports, SessionRecord};
use super::convert::{Dates, Form, Result};
use super::form::{
    Billing, Body, Bucketed, Chosen, Endpoint, Far, Forwarding, Left, Node, Pdr, Pending, Prefix, Set,
    SetsBody, User,
};
use super::nat;
use crate::f_teid_choice::ChooseScope;
use crate::session_accounting::{Entered, SessionAccounting, Subscriber};
use crate::sets::{SetId, SetNode, Sets};
use crate::ue_addresses::UeAddress;

/// Writes what is different in every process by what is not.
pub(super) struct Writer<'a> {
    frame: Frame<'a>,
    dates: Dates<'a>,
    named: Vec<InstanceId>,
    policies: Vec<PolicyId>,
}

impl<'a> Writer<'a> {
    /// A writer of one record.
    pub(super) fn new(frame: Frame<'a>) -> Writer<'a> {
        Writer {
            frame,
            dates: Dates { wall: frame.wall },
            named: Vec::new(),
            policies: Vec::new(),
        }
    }

    /// The form of `record`.
    pub(super) fn body(mut self, record: &SessionRecord) -> Result<Body> {
        let SessionRecord {
            association,
            seid,
            cp,
            bucket,
            sets,
            rules,
            leases,
            shared,
            checkpoints,
            accounting,
            packets,
            tokens,
            dropped,
            port_blocks,
            mappings,
            pending,
        } = record;
        let endpoints = rules.endpoints().iter().map(|one| self.endpoint(one)).collect();
        let pdrs = rules.pdrs().iter().map(|pdr| self.pdr(pdr)).collect();
        let fars = rules.fars().iter().map(|far| self.far(far)).collect();
        let leases = leases.iter().map(|lease| self.lease(lease)).collect();
        let chosen = shared
            .entries()
            .map(|(scope, f_teid)| self.chosen(*scope, *f_teid))
            .collect();
        let network = self.frame.network;
        let instance_name = |id: &InstanceId| network.instance(*id).map(|one| one.name.clone());
        let policy_name = |id: &PolicyId| network.policy(*id).map(|one| one.name.clone());
        Ok(Body {
            association: association.clone(),
            seid: seid.0,
            cp: Form::write(cp, self.dates),
            bucket: bucket.index() as u16,
            sets: sets_body(sets),
            endpoints,
            pdrs,
            fars,
            qers: all(rules.qers(), self.dates),
            urrs: all(rules.urrs(), self.dates),
            bars: all(rules.bars(), self.dates),
            filters: all(rules.shared_filters(), self.dates),
            inactivity_timer: rules.inactivity_timer().map(|timer| timer.seconds.get()),
            leases,
            chosen,
            checkpoints: all(checkpoints, self.dates),
            account: self.accounting(accounting),
            packets: packets.iter().map(|one| self.left(one)).collect(),
            tokens: tokens.iter().map(|one| self.tokens(one)).collect(),
            dropped: dropped
                .iter()
                .map(|one| (one.urr.0, one.packets, one.octets))
                .collect(),
            pending: self.pending(pending),
            nat: nat::write(port_blocks, mappings),
            nat_choices: nat::choices(rules.fars(), network.nat().pools()),
            l4s: rules
                .qers()
                .iter()
                .filter(|qer| qer.optional.marks_l4s)
                .map(|qer| qer.id.0)
                .collect(),
            instances: names(&self.named, instance_name, "network instance")?,
            policies: names(&self.policies, policy_name, "forwarding policy")?,
            policers: network
                .policers()
                .named(rules.policers())
                .map(|policer| policer.name.clone())
                .collect(),
        })
    }

    /// The number of an instance in the record.
    fn instance(&mut self, id: InstanceId) -> u16 {
        number(&mut self.named, id)
    }

    /// The number of a forwarding policy in the record.
    fn policy(&mut self, id: PolicyId) -> u16 {
        number(&mut self.policies, id)
    }

    fn lease(&mut self, (vrf, prefix): &UeAddress) -> (u16, Prefix) {
        let instances = self.frame.network.instances().iter();
        let member = instances.filter(|one| one.vrf == *vrf).map(|one| one.id).next();
        (self.instance(member.unwrap_or_default()), written(prefix))
    }

    fn chosen(&mut self, scope: ChooseScope, f_teid: model::FTeid) -> Chosen {
        let ChooseScope { id, source, instance } = scope;
        Chosen {
            id,
            source: source.value(),
            instance: instance.map(|id| self.instance(id)),
            f_teid: Form::write(&f_teid, self.dates),
        }
    }

    fn endpoint(&mut self, endpoint: &model::TrafficEndpoint) -> Endpoint {
        let model::TrafficEndpoint {
            id,
            f_teid,
            instance,
            ue_ip,
            framed_routes,
            qfis,
        } = endpoint;
        Endpoint {
            id: id.0,
            f_teid: Form::write(f_teid, self.dates),
            instance: instance.map(|id| self.instance(id)),
            ue_ip: all(ue_ip, self.dates),
            framed_routes: framed_routes.iter().map(written).collect(),
            qfis: qfis.iter().map(|qfi| qfi.get()).collect(),
        }
    }

    fn pdr(&mut self, pdr: &model::Pdr) -> Pdr {
        let model::Pdr {
            id,
            precedence,
            pdi,
            outer_header_removal,
            far,
            qers,
            urrs,
            rulebases,
        } = pdr;
        let model::Pdi {
            source_interface,
            endpoint,
            f_teid,
            instance,
            ue_ip,
            sdf_filters,
            optional,
            qfis,
        } = pdi;
        let model::OptionalPdi {
            framed_routes,
            application,
        } = &**optional;
        Pdr {
            id: id.0,
            precedence: precedence.0,
            source_interface: source_interface.value(),
            endpoint: endpoint.map(|id| id.0),
            f_teid: Form::write(f_teid, self.dates),
            instance: instance.map(|id| self.instance(id)),
            ue_ip: all(ue_ip, self.dates),
            framed_routes: framed_routes.iter().map(written).collect(),
            sdf_filters: all(sdf_filters, self.dates),
            application: application.as_ref().map(|one| Form::write(one, self.dates)),
            qfis: qfis.iter().map(|qfi| qfi.get()).collect(),
            outer_header_removal: outer_header_removal.map(|removal| {
                let model::OuterHeaderRemoval { header, deletes_psc } = removal;
                (header.value(), deletes_psc)
            }),
            far: far.map(|id| id.0),
            qers: qers.iter().map(|id| id.0).collect(),
            urrs: urrs.iter().map(|id| id.0).collect(),
            rulebases: rulebases
                .iter()
                .map(|rulebase| rulebase.name().to_vec())
                .collect(),
        }
    }

    fn far(&mut self, far: &model::Far) -> Far {
        let model::Far {
            id,
            action,
            forwarding,
            optional,
            bar,
        } = far;
        let model::OptionalActions {
            duplicating,
            redirect,
            // Beside the FARs: `nat_choices`.
            nat: _,
        } = &**optional;
        Far {
            id: id.0,
            action: action.0,
            forwarding: forwarding.as_ref().map(|to| self.forwarding(to)),
            duplicating: duplicating.as_ref().map(|to| self.forwarding(to)),
            redirect: redirect.as_ref().map(|to| to.url().to_owned()),
            bar: bar.map(|id| id.0),
        }
    }

    fn forwarding(&mut self, forwarding: &model::ForwardingParameters) -> Forwarding {
        let model::ForwardingParameters {
            destination,
            instance,
            outer_header_creation,
            transport_level_marking,
            policy,
        } = forwarding;
        Forwarding {
            destination: destination.value(),
            instance: instance.map(|id| self.instance(id)),
            outer_header_creation: Form::write(outer_header_creation, self.dates),
            transport_level_marking: Form::write(transport_level_marking, self.dates),
            policy: policy.map(|id| self.policy(id)),
        }
    }

    /// What has never begun keeps its 0.
    fn left(&self, PacketsLeft { qer, states }: &PacketsLeft) -> (u32, [Left; 2]) {
        let window = |Window { left, ends }| match ends {
            Nanos::ZERO => (left, 0),
            ends => (left, self.dates.date(ends.into())),
        };
        let both = |state: PacketState| [window(state.base), window(state.additional)];
        (qer.0, states.map(both))
    }

    fn tokens(&self, TokensLeft { qer, tokens: both }: &TokensLeft) -> (u32, [Option<Bucketed>; 2]) {
        let written = |Tokens {
                           left: [committed, further],
                           at,
                       }| (committed, further, self.dates.date(Moment(at)));
        (qer.0, both.map(|tokens| tokens.map(written)))
    }

    fn accounting(&self, accounting: &SessionAccounting) -> Billing {
        let SessionAccounting {
            subscriber,
            since,
            entered,
        } = accounting;
        let Entered { reports, count } = &**entered;
        Billing {
            subscriber: subscriber.as_deref().map(user),
            since: since.get().map(|since| self.dates.date(since)),
            reports: *reports,
            count: Form::write(count, self.dates),
        }
    }

    fn pending(&self, pending: &PendingReports) -> Pending {
        let PendingReports {
            usage,
            queries,
            downlink,
            errors,
            inactive,
            response,
        } = pending;
        let mark = |mark: &DownlinkMark| {
            let status = mark.status.map(|status| status == DataStatus::Discarded);
            (mark.pdr.0, mark.ppi, mark.qfi.map(Qfi::get), status)
        };
        Pending {
            usage: all(usage, self.dates),
            queries: queries
                .iter()
                .map(|one| (one.urr.0, one.sequence, one.query))
                .collect(),
            downlink: downlink.iter().map(mark).collect(),
            errors: errors.iter().map(|(peer, teid)| (*peer, teid.0)).collect(),
            inactive: *inactive,
            response: response.clone(),
        }
    }
}

/// The forms of these values.
fn all<'m, M: 'm, T: Form<M>>(values: impl IntoIterator<Item = &'m M>, dates: Dates<'_>) -> Vec<T> {
    values.into_iter().map(|value| T::write(value, dates)).collect()
}

/// The position of `id` among those that are named, which it joins if it is new.
fn number<T: PartialEq>(named: &mut Vec<T>, id: T) -> u16 {
    let known = named.iter().position(|one| *one == id);
    known.unwrap_or_else(|| {
        named.push(id);
        named.len() - 1
    }) as u16
}

/// The names of what has `ids`. No live session has others than those of the network.
fn names<T>(ids: &[T], name: impl Fn(&T) -> Option<String>, field: &'static str) -> Result<Vec<String>> {
    let named = ids.iter().map(|id| name(id).ok_or(RecordError::Malformed(field)));
    named.collect()
}

fn written(prefix: &IpPrefix) -> Prefix {
    Prefix(prefix.address(), prefix.len())
}

fn user(subscriber: &Subscriber) -> User {
    let Subscriber {
        imsi,
        imei,
        msisdn,
        nai,
        supi,
        gpsi,
        pei,
        dnn,
        s_nssai,
    } = subscriber;
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    User {
        imsi: text(imsi),
        imei: text(imei),
        msisdn: text(msisdn),
        nai: text(nai),
        supi: text(supi),
        gpsi: text(gpsi),
        pei: text(pei),
        dnn: text(dnn),
        s_nssai: s_nssai.map(|slice| (slice.sst, slice.differentiator())),
    }
}

fn sets_body(sets: &Sets) -> SetsBody {
    let Sets {
        ids,
        group,
        reports_to,
    } = sets;
    let set = |id: &SetId| Set {
        kind: id.kind,
        number: id.number,
        node: match id.node {
            SetNode::Ipv4(address) => Node::Ipv4(address),
            SetNode::Ipv6(address) => Node::Ipv6(address),
            SetNode::Operator(number) => Node::Operator(number),
        },
    };
    SetsBody {
        ids: ids.iter().map(set).collect(),
        group: group.as_ref().map(|group| group.to_vec()),
        reports_to: reports_to.map(|to| (to.ipv4, to.ipv6)),
    }
}
