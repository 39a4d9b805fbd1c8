//! From the form of a record to a session: every value is checked, since the octets may come from anywhere.

use flow::meter::{PacketRate, PacketState, PacketsPer, TimeUnit, Tokens, Window};
use flow::{Bucket, InstanceId, Nanos};
use packet::{Ppi, Qfi, Teid};
use rules::boxed_option::BoxedOption;
use rules::compile::MAX_PDRS;
use rules::image::{DataStatus, DroppedCount, PacketsLeft, TokensLeft};
use rules::model::{self, Rulebase, SNssai, SessionRules};
use rules::network::{Network, PolicyId};
use rules::prefix::IpPrefix;
use std::sync::Arc;

use super::super::error::{RecordError, bad};
use super::super::types::{DownlinkMark, Frame, PendingReports, SessionRecord};
use super::filters::{class, read_application, read_filter};
use super::form::{
    Bar, Billing, Body, Bucketed, Chosen, Downlink, Endpoint, FSeid, FTeid, Far, Forwarding, Left, Node,
    OuterHeader, Packets, Pdr, Pending, Prefix, Qer, Set, SetsBody, UeIp, User,
};
use super::urr::{Dates, count, read_urr};
use crate::account::{Account, Entered, Subscriber};
use crate::f_teid_choice::ChosenFTeids;
use crate::ids::{CpFSeid, Seid};
use crate::sets::{Addresses, SetId, SetNode, Sets};
use crate::ue_addresses::UeAddress;

type Result<T> = std::result::Result<T, RecordError>;

/// Reads what goes by numbers of the record.
pub(super) struct Reader<'a> {
    frame: Frame<'a>,
    dates: Dates<'a>,
    instances: Vec<InstanceId>,
    policies: Vec<PolicyId>,
}

impl<'a> Reader<'a> {
    /// A reader of this record.
    pub(super) fn new(frame: Frame<'a>, body: &Body) -> Result<Reader<'a>> {
        let id = |network: &Network, name: &String| {
            let instance = network.instance_by_name(name.as_bytes());
            instance
                .map(|one| one.id)
                .ok_or(RecordError::UnknownInstance(name.clone()))
        };
        let policy = |name: &String| {
            let policy = frame.network.policy_by_name(name.as_bytes());
            policy.ok_or_else(|| RecordError::UnknownPolicy(name.clone()))
        };
        let instances = body.instances.iter().map(|name| id(frame.network, name));
        Ok(Reader {
            frame,
            dates: Dates { wall: frame.wall },
            instances: instances.collect::<Result<_>>()?,
            policies: body.policies.iter().map(policy).collect::<Result<_>>()?,
        })
    }

    /// The whole of it.
    pub(super) fn record(&self, body: Body) -> Result<SessionRecord> {
        let rules = self.rules(&body)?;
        let leases = body.leases.iter().map(|lease| self.lease(lease));
        let chosen = body.chosen.iter().map(|chosen| self.chosen(chosen));
        let chosen: Vec<_> = chosen.collect::<Result<_>>()?;
        let FSeid { seid, ipv4, ipv6 } = body.cp;
        Ok(SessionRecord {
            seid: Some(Seid(body.seid))
                .filter(|seid| seid.0 != 0)
                .ok_or(bad("SEID"))?,
            cp: CpFSeid { seid, ipv4, ipv6 },
            bucket: Bucket::new(body.bucket).ok_or(bad("bucket"))?,
            sets: sets(body.sets),
            rules: Arc::new(rules),
            leases: leases.collect::<Result<_>>()?,
            shared: ChosenFTeids::of_entries(chosen.into_iter()),
            checkpoints: body
                .checkpoints
                .iter()
                .map(|one| self.dates.read_checkpoint(one))
                .collect(),
            account: self.account(body.account),
            packets: self.packets(&body.packets)?,
            tokens: self.tokens(&body.tokens)?,
            dropped: dropped(&body.dropped)?,
            pending: self.pending(&body.pending)?,
            association: body.association,
        })
    }

    /// The rules, made in the order in which their slots are.
    fn rules(&self, body: &Body) -> Result<SessionRules> {
        let lengths = [
            body.endpoints.len(),
            body.pdrs.len(),
            body.fars.len(),
            body.qers.len(),
            body.urrs.len(),
            body.bars.len(),
        ];
        if lengths.into_iter().any(|length| length > MAX_PDRS) {
            return Err(bad("number of rules"));
        }
        let mut rules = SessionRules::new();
        // Those that are configured no more limit nothing.
        let policers = body.policers.iter().take(3).map(String::as_str);
        rules.set_policers(self.frame.network.policers().by_names(policers));
        for endpoint in &body.endpoints {
            rules.create_endpoint(self.endpoint(endpoint)?)?;
        }
        for far in &body.fars {
            rules.create_far(self.far(far)?)?;
        }
        for one in &body.qers {
            rules.create_qer(qer(one)?)?;
        }
        for one in &body.urrs {
            rules.create_urr(read_urr(one)?)?;
        }
        for one in &body.bars {
            rules.create_bar(bar(one))?;
        }
        for pdr in &body.pdrs {
            rules.create_pdr(self.pdr(pdr)?)?;
        }
        if let Some(seconds) = body.inactivity_timer {
            rules.set_inactivity_timer(seconds);
        }
        rules.share_filters(&body.filters.iter().map(read_filter).collect::<Result<Vec<_>>>()?);
        Ok(rules)
    }

    fn instance(&self, number: u16) -> Result<InstanceId> {
        let known = self.instances.get(usize::from(number));
        known.copied().ok_or(bad("network instance"))
    }

    fn optional_instance(&self, number: Option<u16>) -> Result<Option<InstanceId>> {
        number.map(|number| self.instance(number)).transpose()
    }

    fn lease(&self, (instance, address): &(u16, Prefix)) -> Result<UeAddress> {
        let instance = self.frame.network.instance(self.instance(*instance)?);
        let vrf = instance.map(|one| one.vrf).ok_or(bad("lease"))?;
        Ok((vrf, prefix(address)?))
    }

    fn chosen(
        &self,
        chosen: &Chosen,
    ) -> Result<(u8, model::SourceInterface, Option<InstanceId>, model::FTeid)> {
        let source = model::SourceInterface::from_value(chosen.source);
        let instance = self.optional_instance(chosen.instance)?;
        Ok((chosen.id, source, instance, f_teid(&chosen.f_teid)))
    }

    fn endpoint(&self, endpoint: &Endpoint) -> Result<model::TrafficEndpoint> {
        Ok(model::TrafficEndpoint {
            id: model::TrafficEndpointId(endpoint.id),
            f_teid: endpoint.f_teid.as_ref().map(f_teid),
            instance: self.optional_instance(endpoint.instance)?,
            ue_ip: ue_ips(&endpoint.ue_ip),
            framed_routes: prefixes(&endpoint.framed_routes)?,
            qfis: qfis(&endpoint.qfis)?,
        })
    }

    fn pdr(&self, pdr: &Pdr) -> Result<model::Pdr> {
        Ok(model::Pdr {
            id: model::PdrId(pdr.id),
            precedence: model::Precedence(pdr.precedence),
            pdi: model::Pdi {
                source_interface: model::SourceInterface::from_value(pdr.source_interface),
                endpoint: pdr.endpoint.map(model::TrafficEndpointId),
                f_teid: pdr.f_teid.as_ref().map(f_teid),
                instance: self.optional_instance(pdr.instance)?,
                ue_ip: ue_ips(&pdr.ue_ip),
                framed_routes: prefixes(&pdr.framed_routes)?,
                sdf_filters: pdr.sdf_filters.iter().map(read_filter).collect::<Result<_>>()?,
                application: pdr.application.as_ref().map(read_application).transpose()?,
                qfis: qfis(&pdr.qfis)?,
            },
            outer_header_removal: pdr.outer_header_removal.map(removal).transpose()?,
            far: pdr.far.map(model::FarId),
            qers: pdr.qers.iter().copied().map(model::QerId).collect(),
            urrs: pdr.urrs.iter().copied().map(model::UrrId).collect(),
            rulebases: pdr
                .rulebases
                .iter()
                .map(|name| self.rulebase(name))
                .collect::<Result<_>>()?,
        })
    }

    fn far(&self, far: &Far) -> Result<model::Far> {
        let read = |to: &Option<Forwarding>| to.as_ref().map(|to| self.forwarding(to)).transpose();
        Ok(model::Far {
            id: model::FarId(far.id),
            action: model::ApplyAction(far.action),
            forwarding: read(&far.forwarding)?,
            duplicating: read(&far.duplicating)?.map(Box::new),
            redirect: far.redirect.as_deref().map(redirect).transpose()?,
            bar: far.bar.map(model::BarId),
        })
    }

    fn forwarding(&self, forwarding: &Forwarding) -> Result<model::ForwardingParameters> {
        let header = |header: &OuterHeader| model::OuterHeaderCreation {
            kind: model::OuterHeaderKind(header.kind),
            teid: Teid(header.teid),
            ipv4: header.ipv4,
            ipv6: header.ipv6,
            port: header.port,
        };
        Ok(model::ForwardingParameters {
            destination: model::DestinationInterface::from_value(forwarding.destination),
            instance: self.optional_instance(forwarding.instance)?,
            outer_header_creation: forwarding.outer_header_creation.as_ref().map(header),
            transport_level_marking: forwarding.transport_level_marking.map(class),
            policy: forwarding.policy.map(|number| self.policy(number)).transpose()?,
        })
    }

    fn rulebase(&self, name: &[u8]) -> Result<Arc<Rulebase>> {
        let rulebase = self.frame.predefined.rulebase(name).cloned();
        rulebase.ok_or_else(|| RecordError::UnknownRulebase(String::from_utf8_lossy(name).into_owned()))
    }

    fn policy(&self, number: u16) -> Result<PolicyId> {
        let known = self.policies.get(usize::from(number));
        known.copied().ok_or(bad("forwarding policy"))
    }

    /// What ended before the process's clock began is over.
    fn packets(&self, left: &[(u32, [Left; 2])]) -> Result<Vec<PacketsLeft>> {
        if left.len() > MAX_PDRS {
            return Err(bad("number of packet rates"));
        }
        let window = |(left, date)| Window {
            left,
            ends: match date {
                0 => Nanos::ZERO,
                date => self.dates.moment(date).on_clock(),
            },
        };
        let state = |[base, additional]: Left| PacketState {
            base: window(base),
            additional: window(additional),
        };
        let one = |(qer, states): &(u32, [Left; 2])| (model::QerId(*qer), states.map(state));
        Ok(left.iter().map(one).collect())
    }

    fn tokens(&self, left: &[(u32, [Option<Bucketed>; 2])]) -> Result<Vec<TokensLeft>> {
        if left.len() > MAX_PDRS {
            return Err(bad("number of bit rates"));
        }
        let tokens = |(committed, further, date)| Tokens {
            left: [committed, further],
            at: self.dates.moment(date).0,
        };
        let one = |(qer, both): &(u32, [Option<Bucketed>; 2])| {
            (model::QerId(*qer), both.map(|written| written.map(tokens)))
        };
        Ok(left.iter().map(one).collect())
    }

    fn account(&self, account: Billing) -> Account {
        Account {
            subscriber: account.subscriber.map(subscriber).map(Arc::new),
            since: account.since.map(|since| self.dates.moment(since)).into(),
            entered: BoxedOption::from(Entered {
                reports: account.reports,
                count: count(account.count),
            }),
        }
    }

    fn pending(&self, pending: &Pending) -> Result<PendingReports> {
        let mark = |(pdr, ppi, qfi, status): &Downlink| {
            Ok(DownlinkMark {
                pdr: model::PdrId(*pdr),
                ppi: *ppi,
                qfi: qfi.map(self::qfi).transpose()?,
                status: status.map(|is_discarded| match is_discarded {
                    true => DataStatus::Discarded,
                    false => DataStatus::Buffered,
                }),
            })
        };
        Ok(PendingReports {
            usage: pending
                .usage
                .iter()
                .map(|report| self.dates.read_usage(report))
                .collect(),
            queries: pending
                .queries
                .iter()
                .map(|(urr, sequence, query)| (model::UrrId(*urr), *sequence, *query))
                .collect(),
            downlink: pending.downlink.iter().map(mark).collect::<Result<_>>()?,
            errors: pending
                .errors
                .iter()
                .map(|(peer, teid)| (*peer, Teid(*teid)))
                .collect(),
            inactive: pending.inactive,
        })
    }
}

fn redirect(url: &str) -> Result<model::Redirect> {
    model::Redirect::new(url.as_bytes()).ok_or(bad("redirect URL"))
}

fn subscriber(user: User) -> Subscriber {
    let text = |text: Option<String>| text.map(String::into_boxed_str);
    Subscriber {
        imsi: text(user.imsi),
        imei: text(user.imei),
        msisdn: text(user.msisdn),
        nai: text(user.nai),
        supi: text(user.supi),
        gpsi: text(user.gpsi),
        pei: text(user.pei),
        dnn: text(user.dnn),
        s_nssai: user.s_nssai.map(|(sst, sd)| SNssai {
            sst,
            sd: sd.unwrap_or(SNssai::NO_SD),
        }),
    }
}

fn prefix(Prefix(address, len): &Prefix) -> Result<IpPrefix> {
    IpPrefix::new(*address, *len).ok_or(bad("prefix"))
}

fn prefixes(all: &[Prefix]) -> Result<Vec<IpPrefix>> {
    all.iter().map(prefix).collect()
}

fn qfi(value: u8) -> Result<Qfi> {
    Qfi::new(value).ok_or(bad("QFI"))
}

fn qfis(values: &[u8]) -> Result<model::Qfis> {
    values.iter().copied().map(qfi).collect()
}

fn removal((header, deletes_psc): (u8, bool)) -> Result<model::OuterHeaderRemoval> {
    let header = model::OuterHeader::from_value(header).ok_or(bad("Outer Header Removal"))?;
    Ok(model::OuterHeaderRemoval { header, deletes_psc })
}

fn sets(sets: SetsBody) -> Sets {
    let set = |set: Set| SetId {
        kind: set.kind,
        number: set.number,
        node: match set.node {
            Node::Ipv4(address) => SetNode::Ipv4(address),
            Node::Ipv6(address) => SetNode::Ipv6(address),
            Node::Operator(number) => SetNode::Operator(number),
        },
    };
    Sets {
        ids: sets.ids.into_iter().map(set).collect(),
        group: sets.group.map(Vec::into_boxed_slice),
        reports_to: sets.reports_to.map(|(ipv4, ipv6)| Addresses { ipv4, ipv6 }),
    }
}

fn f_teid(f_teid: &FTeid) -> model::FTeid {
    model::FTeid {
        teid: Teid(f_teid.teid),
        ipv4: f_teid.ipv4,
        ipv6: f_teid.ipv6,
    }
}

/// Any length is one: the model takes one above 128 for 128.
fn ue_ips(all: &[UeIp]) -> model::UeIpAddresses {
    let one = |ue: &UeIp| model::UeIpAddress {
        ipv4: ue.ipv4,
        ipv6: ue.ipv6,
        is_destination: ue.is_destination,
    };
    all.iter().map(one).collect()
}

fn qer(qer: &Qer) -> Result<model::Qer> {
    let gate = |is_closed| {
        if is_closed {
            model::Gate::Closed
        } else {
            model::Gate::Open
        }
    };
    let rates = |(ul, dl)| model::BitRates {
        ul: model::BitsPerSecond(ul),
        dl: model::BitsPerSecond(dl),
    };
    let ppi = |value| Ppi::new(value).ok_or(bad("PPI"));
    Ok(model::Qer {
        id: model::QerId(qer.id),
        correlation: qer.correlation.map(model::CorrelationId),
        gate_ul: gate(qer.gates.0),
        gate_dl: gate(qer.gates.1),
        qfi: qer.qfi.map(qfi).transpose()?,
        rqi: qer.rqi,
        ppi: qer.ppi.map(ppi).transpose()?,
        sci: qer.sci,
        mbr: qer.mbr.map(rates),
        gbr: qer.gbr.map(rates),
        averaging_window: qer.averaging_window,
        packet_rates: qer.packet_rates.as_ref().map(|(ul, dl)| model::PacketRates {
            ul: ul.as_ref().map(packet_rate),
            dl: dl.as_ref().map(packet_rate),
        }),
        reports_rate: qer.reports_rate,
    })
}

fn packet_rate(rate: &Packets) -> PacketRate {
    let per = |(packets, unit)| PacketsPer {
        packets,
        unit: TimeUnit::from_value(unit),
    };
    PacketRate {
        base: per(rate.base),
        additional: rate.additional.map(per),
    }
}

fn bar(bar: &Bar) -> model::Bar {
    model::Bar {
        id: model::BarId(bar.id),
        notification_delay: bar.notification_delay,
        suggested_packets: bar.suggested_packets,
        extended_packets: bar.extended_packets,
    }
}

fn dropped(counts: &[(u32, u64, u64)]) -> Result<Vec<DroppedCount>> {
    if counts.len() > MAX_PDRS {
        return Err(bad("number of dropped counts"));
    }
    let one = |(urr, packets, octets): &(u32, u64, u64)| DroppedCount {
        urr: model::UrrId(*urr),
        packets: *packets,
        octets: *octets,
    };
    Ok(counts.iter().map(one).collect())
}
