//! PFCP messages of Sluice as `counters.json` shows them. Identifiers that Sluice drew are shown by the order in which
//! they came, so that no case depends on them.

use pfcp::group::CreatedPdr;
use pfcp::ie::{
    Cause, FTeid, FailedRuleId, OffendingIe, PacketRateStatus, TimeStamp, UsageInformation,
    UsageReportTrigger, VolumeMeasurement,
};
use pfcp::message::Message;
use pfcp::{Frames, Header};
use serde_json::{Map, Value, json};

use crate::value::Fault;

/// TEIDs that Sluice chose, in the order in which they came.
#[derive(Default)]
pub struct Chosen(Vec<u32>);

impl Chosen {
    fn ordinal(&mut self, teid: u32) -> usize {
        let known = self.0.iter().position(|known| *known == teid);
        known.unwrap_or_else(|| {
            self.0.push(teid);
            self.0.len() - 1
        }) + 1
    }
}

/// What a script continues with after a response.
#[derive(Default)]
pub struct Answer {
    pub cause: u8,
    pub up_seid: Option<u64>,
    /// PDRs and the TEIDs that they were given.
    pub teids: Vec<(u16, u32)>,
    pub shown: Map<String, Value>,
}

/// The one message of a datagram.
pub fn decode(datagram: &[u8]) -> Result<(Header, Message<'_>), Fault> {
    let frame = Frames::new(datagram).next().ok_or("an empty datagram")?;
    let frame = frame.map_err(|error| format!("a bad header: {error:?}"))?;
    let message = Message::decode(&frame).map_err(|error| format!("a bad message: {error:?}"))?;
    Ok((frame.header, message))
}

/// Reads an answer.
pub fn read(datagram: &[u8], chosen: &mut Chosen) -> Result<Answer, Fault> {
    let (_, message) = decode(datagram)?;
    let mut answer = Answer::default();
    match message {
        Message::AssociationSetupResponse(said) => answer.cause(said.cause),
        Message::AssociationReleaseResponse(said) => answer.cause(said.cause),
        Message::PfdManagementResponse(said) => answer.cause(said.cause),
        Message::SessionEstablishmentResponse(said) => {
            answer.cause(said.cause);
            answer.refused(said.offending_ie, said.failed_rule_id);
            answer.up_seid = said.up_f_seid.map(|f_seid| f_seid.seid.0);
            answer.created(said.created_pdr.iter(), chosen);
        }
        Message::SessionModificationResponse(said) => {
            answer.cause(said.cause);
            answer.refused(said.offending_ie, said.failed_rule_id);
            answer.created(said.created_pdr.iter(), chosen);
            let usage = said.usage_report.iter();
            answer.usage(usage.map(|report| {
                usage_report(
                    (report.urr_id.0, report.ur_seqn.0),
                    report.usage_report_trigger,
                    report.volume_measurement,
                    report.usage_information,
                )
            }));
            let left = said.packet_rate_status_report.iter();
            answer.packets(left.map(|left| packets_left(left.qer_id.0, left.packet_rate_status)));
        }
        Message::SessionDeletionResponse(said) => {
            answer.cause(said.cause);
            answer.refused(said.offending_ie, None);
            let usage = said.usage_report.iter();
            answer.usage(usage.map(|report| {
                usage_report(
                    (report.urr_id.0, report.ur_seqn.0),
                    report.usage_report_trigger,
                    report.volume_measurement,
                    report.usage_information,
                )
            }));
            let left = said.packet_rate_status_report.iter();
            answer.packets(left.map(|left| packets_left(left.qer_id.0, left.packet_rate_status)));
        }
        other => return Err(format!("an answer of type {}", other.message_type().0)),
    }
    Ok(answer)
}

impl Answer {
    fn show(&mut self, name: &str, value: Value) {
        self.shown.insert(name.into(), value);
    }

    fn cause(&mut self, cause: Cause) {
        self.cause = cause.value();
        self.show("cause", json!(format!("{} {}", cause.value(), cause.name())));
    }

    fn refused(&mut self, offending: Option<OffendingIe>, rule: Option<FailedRuleId>) {
        if let Some(offending) = offending {
            self.show("offending_ie", json!(format!("{offending:?}")));
        }
        if let Some(rule) = rule {
            self.show("failed_rule_id", json!(format!("{rule:?}")));
        }
    }

    fn created<'a>(&mut self, pdrs: impl Iterator<Item = CreatedPdr<'a>>, chosen: &mut Chosen) {
        let mut shown = Vec::new();
        for pdr in pdrs {
            let Some(FTeid::Endpoint { teid, ipv4, ipv6 }) = pdr.local_f_teid else {
                continue;
            };
            self.teids.push((pdr.pdr_id.0, teid.0));
            let ordinal = chosen.ordinal(teid.0);
            shown.push(json!({"pdr_id": pdr.pdr_id.0, "teid": format!("chosen {ordinal}"), "ipv4": ipv4, "ipv6": ipv6}));
        }
        if !shown.is_empty() {
            self.show("created_pdr", shown.into());
        }
    }

    fn usage(&mut self, reports: impl Iterator<Item = Value>) {
        let reports: Vec<_> = reports.collect();
        if !reports.is_empty() {
            self.show("usage_report", reports.into());
        }
    }

    fn packets(&mut self, left: impl Iterator<Item = Value>) {
        let left: Vec<_> = left.collect();
        if !left.is_empty() {
            self.show("packet_rate_status_report", left.into());
        }
    }
}

/// Of each QER, with the seconds since 1900 until which it holds.
fn packets_left(qer: u32, status: PacketRateStatus) -> Value {
    let until = status.valid_until.map(|until| until >> 32);
    json!({"qer_id": qer, "uplink": status.uplink, "downlink": status.downlink, "valid_until": until})
}

fn usage_report(
    (urr, number): (u32, u32),
    trigger: UsageReportTrigger,
    volume: Option<VolumeMeasurement>,
    part: Option<UsageInformation>,
) -> Value {
    const TRIGGERS: [(&str, UsageReportTrigger); 5] = [
        ("EVETH", UsageReportTrigger::EVETH),
        ("EVEQU", UsageReportTrigger::EVEQU),
        ("VOLQU", UsageReportTrigger::VOLQU),
        ("IMMER", UsageReportTrigger::IMMER),
        ("TERMR", UsageReportTrigger::TERMR),
    ];
    let known = TRIGGERS.iter().find(|(_, one)| *one == trigger);
    let trigger = known.map_or_else(|| format!("{trigger:?}"), |(name, _)| (*name).to_owned());
    let volume = volume.unwrap_or_default();
    let (total, uplink, downlink) = (volume.total, volume.uplink, volume.downlink);
    let mut shown = json!({
        "urr_id": urr, "ur_seqn": number, "trigger": trigger,
        "total": total, "uplink": uplink, "downlink": downlink,
    });
    if let (Some(part), Some(shown)) = (part, shown.as_object_mut()) {
        shown.insert("usage_information".into(), json!(format!("{part:?}")));
    }
    shown
}

/// A report with the seconds since 1970 of its events, if it has any.
fn with_events(mut shown: Value, events: impl Iterator<Item = u64>) -> Value {
    let events: Vec<_> = events.collect();
    if let (false, Some(shown)) = (events.is_empty(), shown.as_object_mut()) {
        shown.insert("event_time_stamp".into(), events.into());
    }
    shown
}

/// A request of Sluice's, as `counters.json` shows it, with the type and the header of its response.
pub fn request(datagram: &[u8]) -> Result<(Value, Header), Fault> {
    let (header, message) = decode(datagram)?;
    let shown = match message {
        Message::SessionReportRequest(said) => {
            let errors = said.error_indication_report.into_iter();
            let remote: Vec<_> = errors
                .flat_map(|report| report.remote_f_teid.iter().collect::<Vec<_>>())
                .collect();
            let mut shown = json!({
                "cp_seid": header.seid.map(|seid| seid.0),
                "report_type": said.report_type.0,
                "remote_f_teid": remote.iter().map(|f_teid| format!("{f_teid:?}")).collect::<Vec<_>>(),
            });
            let usage: Vec<Value> = said
                .usage_report
                .iter()
                .map(|report| {
                    let shown = usage_report(
                        (report.urr_id.0, report.ur_seqn.0),
                        report.usage_report_trigger,
                        report.volume_measurement,
                        report.usage_information,
                    );
                    with_events(shown, report.event_time_stamp.iter().map(TimeStamp::unix))
                })
                .collect();
            if let (false, Some(shown)) = (usage.is_empty(), shown.as_object_mut()) {
                shown.insert("usage_report".into(), usage.into());
            }
            json!({"session_report_request": shown})
        }
        Message::HeartbeatRequest(_) => json!("heartbeat_request"),
        other => json!(format!("message of type {}", other.message_type().0)),
    };
    Ok((shown, header))
}
