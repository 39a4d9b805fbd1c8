//! From the form of a record to a session: every value is checked, since the octets may come from anywhere.

use flow::meter::{PacketState, Tokens, Window};
use flow::{Bucket, InstanceId, Nanos};
use packet::{Qfi, Teid};
use rules::boxed_option::BoxedOption;
use rules::compile::MAX_PDRS;
use rules::image::{DataStatus, DroppedCount, PacketsLeft, TokensLeft};
use rules::model::{self, LocalPolicy, Rulebase, SNssai, SessionRules};
use rules::network::{Network, PolicyId};
use rules::prefix::IpPrefix;
use std::sync::Arc;

use super::super::error::{RecordError, bad};
use super::super::types::{AnsweredQuery, DownlinkMark, Frame, PendingReports, SessionRecord};
use super::convert::{Dates, Form, Result};
use super::form::{
    Billing, Body, Bucketed, Chosen, Downlink, Endpoint, Far, Forwarding, Left, Node, Pdr, Pending, Prefix,
    Set, SetsBody, User,
};
use super::nat;
use crate::f_teid_choice::ChooseScope;
use crate::ids::Seid;
use crate::session_accounting::{Entered, SessionAccounting, Subscriber};
use crate::sets::{Addresses, SetId, SetNode, Sets};
use crate::ue_addresses::UeAddress;

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
        let mut rules = self.rules(&body)?;
        let accounting = self.accounting(body.account)?;
        // The list is the configuration's as it is here, and no part of the session. Policers are those that it had.
        let subscriber = accounting.subscriber.as_deref();
        let policy = Subscriber::local_policy(subscriber, &rules, self.frame.network);
        rules.set_local_policy(LocalPolicy {
            policers: rules.policers(),
            ..policy
        });
        let (port_blocks, mappings) = match (body.nat, rules.nat()) {
            (Some(of_record), Some(pool)) => nat::read(of_record, pool, self.frame.network.nat().pools())?,
            _ => Default::default(),
        };
        let leases = body.leases.iter().map(|lease| self.lease(lease));
        let chosen = body.chosen.iter().map(|chosen| self.chosen(chosen));
        Ok(SessionRecord {
            seid: Some(Seid(body.seid))
                .filter(|seid| seid.0 != 0)
                .ok_or(bad("SEID"))?,
            cp: body.cp.read(self.dates)?,
            bucket: Bucket::new(body.bucket).ok_or(bad("bucket"))?,
            sets: sets(body.sets),
            rules: Arc::new(rules),
            leases: leases.collect::<Result<_>>()?,
            shared: chosen.collect::<Result<_>>()?,
            checkpoints: all(&body.checkpoints, self.dates)?,
            accounting,
            packets: self.packets(&body.packets)?,
            tokens: self.tokens(&body.tokens)?,
            dropped: dropped(&body.dropped)?,
            port_blocks,
            mappings,
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
            let nat = nat::choice(&body.nat_choices, far.id, self.frame.network.nat());
            rules.create_far(self.far(far, nat)?)?;
        }
        for one in &body.qers {
            let mut qer: model::Qer = one.read(self.dates)?;
            if body.l4s.contains(&qer.id.0) {
                qer.optional.get_or_insert_default().marks_l4s = true;
            }
            rules.create_qer(qer)?;
        }
        for one in &body.urrs {
            rules.create_urr(one.read(self.dates)?)?;
        }
        for one in &body.bars {
            rules.create_bar(one.read(self.dates)?)?;
        }
        for pdr in &body.pdrs {
            rules.create_pdr(self.pdr(pdr)?)?;
        }
        if let Some(seconds) = body.inactivity_timer {
            rules.set_inactivity_timer(seconds);
        }
        let filters: Vec<_> = all(&body.filters, self.dates)?;
        rules.share_filters(&filters);
        rules.set_chosen_nat(self.frame.network.nat_choice(&rules).0);
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

    fn chosen(&self, chosen: &Chosen) -> Result<(ChooseScope, model::FTeid)> {
        let scope = ChooseScope {
            id: chosen.id,
            source: model::SourceInterface::from_value(chosen.source),
            instance: self.optional_instance(chosen.instance)?,
        };
        Ok((scope, chosen.f_teid.read(self.dates)?))
    }

    fn endpoint(&self, endpoint: &Endpoint) -> Result<model::TrafficEndpoint> {
        Ok(model::TrafficEndpoint {
            id: model::TrafficEndpointId(endpoint.id),
            f_teid: endpoint.f_teid.read(self.dates)?,
            instance: self.optional_instance(endpoint.instance)?,
            ue_ip: all(&endpoint.ue_ip, self.dates)?,
            framed_routes: prefixes(&endpoint.framed_routes)?,
            qfis: qfis(&endpoint.qfis)?,
        })
    }

    fn pdr(&self, pdr: &Pdr) -> Result<model::Pdr> {
        let application: Option<model::Application> = pdr.application.read(self.dates)?;
        let rulebases = pdr.rulebases.iter().map(|name| self.rulebase(name));
        Ok(model::Pdr {
            id: model::PdrId(pdr.id),
            precedence: model::Precedence(pdr.precedence),
            pdi: model::Pdi {
                source_interface: model::SourceInterface::from_value(pdr.source_interface),
                endpoint: pdr.endpoint.map(model::TrafficEndpointId),
                f_teid: pdr.f_teid.read(self.dates)?,
                instance: self.optional_instance(pdr.instance)?,
                ue_ip: all(&pdr.ue_ip, self.dates)?,
                sdf_filters: all(&pdr.sdf_filters, self.dates)?,
                optional: model::OptionalPdi {
                    framed_routes: prefixes(&pdr.framed_routes)?,
                    application,
                }
                .into(),
                qfis: qfis(&pdr.qfis)?,
            },
            outer_header_removal: pdr.outer_header_removal.map(removal).transpose()?,
            far: pdr.far.map(model::FarId),
            qers: pdr.qers.iter().copied().map(model::QerId).collect(),
            urrs: pdr.urrs.iter().copied().map(model::UrrId).collect(),
            rulebases: rulebases.collect::<Result<Vec<_>>>()?.into(),
        })
    }

    fn far(&self, far: &Far, nat: Option<model::NatChoice>) -> Result<model::Far> {
        let read = |to: &Option<Forwarding>| to.as_ref().map(|to| self.forwarding(to)).transpose();
        Ok(model::Far {
            id: model::FarId(far.id),
            action: model::ApplyAction(far.action),
            forwarding: read(&far.forwarding)?,
            optional: model::OptionalActions {
                duplicating: read(&far.duplicating)?,
                redirect: far.redirect.as_deref().map(redirect).transpose()?,
                nat,
            }
            .into(),
            bar: far.bar.map(model::BarId),
        })
    }

    fn forwarding(&self, forwarding: &Forwarding) -> Result<model::ForwardingParameters> {
        Ok(model::ForwardingParameters {
            destination: model::DestinationInterface::from_value(forwarding.destination),
            instance: self.optional_instance(forwarding.instance)?,
            outer_header_creation: forwarding.outer_header_creation.read(self.dates)?,
            transport_level_marking: forwarding.transport_level_marking.read(self.dates)?,
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
        let one = |(qer, states): &(u32, [Left; 2])| PacketsLeft {
            qer: model::QerId(*qer),
            states: states.map(state),
        };
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
        let one = |(qer, both): &(u32, [Option<Bucketed>; 2])| TokensLeft {
            qer: model::QerId(*qer),
            tokens: both.map(|written| written.map(tokens)),
        };
        Ok(left.iter().map(one).collect())
    }

    fn accounting(&self, account: Billing) -> Result<SessionAccounting> {
        Ok(SessionAccounting {
            subscriber: account.subscriber.map(subscriber).map(Arc::new),
            since: account.since.map(|since| self.dates.moment(since)).into(),
            entered: BoxedOption::from(Entered {
                reports: account.reports,
                count: account.count.read(self.dates)?,
            }),
        })
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
            usage: all(&pending.usage, self.dates)?,
            queries: pending
                .queries
                .iter()
                .map(|(urr, sequence, query)| AnsweredQuery {
                    urr: model::UrrId(*urr),
                    sequence: *sequence,
                    query: *query,
                })
                .collect(),
            downlink: pending.downlink.iter().map(mark).collect::<Result<_>>()?,
            errors: pending
                .errors
                .iter()
                .map(|(peer, teid)| (*peer, Teid(*teid)))
                .collect(),
            inactive: pending.inactive,
            response: pending.response.clone(),
        })
    }
}

/// The values of these forms.
fn all<M, T: Form<M>, C: FromIterator<M>>(forms: &[T], dates: Dates<'_>) -> Result<C> {
    forms.iter().map(|form| form.read(dates)).collect()
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
