//! PFCP of a capture, said again to another user plane: requests as an SMF sent them, with what the captured answers
//! say that the user plane of then had chosen (TEIDs, UE addresses), so that the captured packets find their sessions.

use std::collections::HashMap;
use std::net::IpAddr;

use pfcp::tlv::Tlvs;
use pfcp::{IeType, MessageType};

const SESSION_HEADER: usize = 16;
const NODE_HEADER: usize = 8;
/// Groups in groups: a PDI in a PDR.
const DEPTH: usize = 2;
/// Longest IE that a user plane chooses, octets: an F-TEID or a UE IP Address of both families has fewer.
const MOST_CHOSEN: usize = 32;
/// Octets of the IEs of a message.
const LONGEST: usize = 65_535 - SESSION_HEADER;

/// Where a message begins, and its fields (TS 29.244 §7.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Message type.
    pub kind: MessageType,
    /// The SEID, of messages about sessions.
    pub seid: Option<u64>,
    /// The sequence number.
    pub sequence: u32,
    /// Where the IEs begin.
    body: usize,
}

impl Head {
    /// Reads the header of `message`; `None`: not a PFCP message.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        let [flags, kind] = *message.first_chunk()?;
        let kind = MessageType(kind);
        let body = if flags & 1 == 1 {
            SESSION_HEADER
        } else {
            NODE_HEADER
        };
        let seid = message.get(4..12).and_then(|octets| octets.try_into().ok());
        let last = message.get(body - 4..body)?;
        (flags >> 5 == 1).then_some(Self {
            kind,
            seid: seid.map(u64::from_be_bytes).filter(|_| body == SESSION_HEADER),
            sequence: u32::from_be_bytes([0, last[0], last[1], last[2]]),
            body,
        })
    }

    /// The type of the request that it answers, if it answers one (TS 29.244 §7.3).
    #[must_use]
    pub fn answered(self) -> Option<MessageType> {
        let request = MessageType(self.kind.0.checked_sub(1)?);
        (request.response() == Some(self.kind)).then_some(request)
    }
}

/// A message with these IEs.
#[must_use]
pub fn message(kind: MessageType, seid: Option<u64>, sequence: u32, ies: &[u8]) -> Vec<u8> {
    let mut message = vec![0x20 | u8::from(seid.is_some()), kind.0, 0, 0];
    message.extend(seid.iter().flat_map(|seid| seid.to_be_bytes()));
    message.extend(&sequence.to_be_bytes()[1..]);
    message.push(0);
    message.extend(ies);
    let length = (message.len() - 4) as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
    message
}

/// An IE.
#[must_use]
pub fn ie(kind: IeType, value: &[u8]) -> Vec<u8> {
    let mut ie = kind.0.to_be_bytes().to_vec();
    ie.extend((value.len() as u16).to_be_bytes());
    ie.extend(value);
    ie
}

fn ies(octets: &[u8]) -> impl Iterator<Item = (IeType, &[u8])> {
    let mut all = Tlvs::new(octets);
    std::iter::from_fn(move || all.advance().ok().flatten().map(|ie| (ie.ie_type, ie.value)))
}

fn find(octets: &[u8], kind: IeType) -> Option<&[u8]> {
    ies(octets)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// The first IE of this type in a message.
#[must_use]
pub fn of_message(message: &[u8], kind: IeType) -> Option<&[u8]> {
    find(message.get(Head::read(message)?.body..)?, kind)
}

/// The SEID of an F-SEID (TS 29.244 §8.2.37).
#[must_use]
pub fn seid_of(f_seid: &[u8]) -> Option<u64> {
    f_seid.get(1..9)?.try_into().ok().map(u64::from_be_bytes)
}

/// F-TEIDs and UE addresses that the user plane of the capture has chosen, by its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// F-TEIDs by PDR, then by Traffic Endpoint; and UE IP Addresses likewise.
    f_teids: HashMap<(bool, u16), Vec<u8>>,
    ue_ips: HashMap<(bool, u16), Vec<u8>>,
    /// By CHOOSE ID, learnt from the request.
    by_choose_id: HashMap<u8, Vec<u8>>,
}

impl Chosen {
    /// Reads an answer.
    #[must_use]
    pub fn of(answer: &[u8]) -> Self {
        let mut chosen = Self::default();
        let body = Head::read(answer).and_then(|head| answer.get(head.body..));
        for (kind, value) in ies(body.unwrap_or_default()) {
            let is_endpoint = kind == IeType::CREATED_TRAFFIC_ENDPOINT;
            if !is_endpoint && kind != IeType::CREATED_PDR && kind != IeType::UPDATED_PDR {
                continue;
            }
            let Some(id) = id_of(value, is_endpoint) else {
                continue;
            };
            if let Some(f_teid) = find(value, IeType::F_TEID).filter(|value| value.len() <= MOST_CHOSEN) {
                chosen.f_teids.insert((is_endpoint, id), f_teid.to_vec());
            }
            if let Some(ue_ip) = find(value, IeType::UE_IP_ADDRESS).filter(|value| value.len() <= MOST_CHOSEN)
            {
                chosen.ue_ips.insert((is_endpoint, id), ue_ip.to_vec());
            }
        }
        chosen
    }

    /// Whether anything was chosen.
    #[must_use]
    pub fn has_any(&self) -> bool {
        !self.f_teids.is_empty() || !self.ue_ips.is_empty()
    }

    /// The request with these values in place of CHOOSE flags, and for the session with this SEID.
    #[must_use]
    pub fn fill(mut self, request: &[u8], seid: Option<u64>) -> Vec<u8> {
        let Some(head) = Head::read(request) else {
            return request.to_vec();
        };
        let body = request.get(head.body..).unwrap_or_default();
        self.learn(body);
        let ies = self.filled(body, None, DEPTH);
        if ies.len() > LONGEST {
            return request.to_vec();
        }
        message(head.kind, head.seid.and(seid.or(head.seid)), head.sequence, &ies)
    }

    /// Learns F-TEIDs by CHOOSE ID: a response may have that of one PDR alone.
    fn learn(&mut self, body: &[u8]) {
        for (kind, value) in ies(body) {
            let Some((pdi, of)) = chooser(kind, value) else {
                continue;
            };
            let Some(f_teid) = find(pdi, IeType::F_TEID) else {
                continue;
            };
            if let ([flags, id, ..], Some(own)) = (f_teid, self.f_teids.get(&of))
                && flags & 0x0c == 0x0c
            {
                self.by_choose_id.insert(*id, own.clone());
            }
        }
    }

    /// IEs with the chosen values, where the IEs are those of a PDR or a Traffic Endpoint.
    fn filled(&self, octets: &[u8], of: Option<(bool, u16)>, depth: usize) -> Vec<u8> {
        let mut filled = Vec::new();
        for (kind, value) in ies(octets) {
            let of = chooser(kind, value).map(|(_, of)| of).or(of);
            let is_group = matches!(
                kind,
                IeType::CREATE_PDR
                    | IeType::UPDATE_PDR
                    | IeType::PDI
                    | IeType::CREATE_TRAFFIC_ENDPOINT
                    | IeType::UPDATE_TRAFFIC_ENDPOINT
            );
            let value = match (kind, of) {
                _ if is_group && depth > 0 => self.filled(value, of, depth - 1),
                (IeType::F_TEID, Some(of)) => self.f_teid(value, of),
                (IeType::UE_IP_ADDRESS, Some(of)) => self.ue_ip(value, of),
                _ => value.to_vec(),
            };
            filled.extend(ie(kind, &value));
        }
        filled
    }

    fn f_teid(&self, value: &[u8], of: (bool, u16)) -> Vec<u8> {
        let (flags, id) = (value.first().copied().unwrap_or(0), value.get(1).copied());
        if flags & 4 == 0 {
            return value.to_vec();
        }
        let by_id = || self.by_choose_id.get(&id.filter(|_| flags & 8 != 0)?);
        let chosen = self.f_teids.get(&of).or_else(by_id);
        chosen.map_or_else(|| value.to_vec(), Clone::clone)
    }

    /// With CHV4 or CHV6 the address comes from the answer; which side of packets it is, from the request.
    fn ue_ip(&self, value: &[u8], of: (bool, u16)) -> Vec<u8> {
        let flags = value.first().copied().unwrap_or(0);
        match self.ue_ips.get(&of) {
            Some(chosen) if flags & 0x30 != 0 => {
                let mut chosen = chosen.clone();
                if let Some(first) = chosen.first_mut() {
                    *first = *first & !4 | flags & 4;
                }
                chosen
            }
            _ => value.to_vec(),
        }
    }
}

/// The number of a PDR, or of a Traffic Endpoint, in a group.
fn id_of(group: &[u8], is_endpoint: bool) -> Option<u16> {
    if is_endpoint {
        return find(group, IeType::TRAFFIC_ENDPOINT_ID)?
            .first()
            .copied()
            .map(u16::from);
    }
    let id = find(group, IeType::PDR_ID)?;
    Some(u16::from_be_bytes(*id.first_chunk()?))
}

/// The IEs of a group in which a user plane may choose, and their PDR or Traffic Endpoint.
fn chooser(kind: IeType, value: &[u8]) -> Option<(&[u8], (bool, u16))> {
    match kind {
        IeType::CREATE_PDR | IeType::UPDATE_PDR => Some((
            find(value, IeType::PDI).unwrap_or_default(),
            (false, id_of(value, false)?),
        )),
        IeType::CREATE_TRAFFIC_ENDPOINT | IeType::UPDATE_TRAFFIC_ENDPOINT => {
            Some((value, (true, id_of(value, true)?)))
        }
        _ => None,
    }
}

/// A request, as the key of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The sender.
    pub from: IpAddr,
    /// The request's type.
    pub kind: MessageType,
    /// Its sequence number.
    pub sequence: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_pdr(id: u16, pdi: &[u8]) -> Vec<u8> {
        let inner = [ie(IeType::PDR_ID, &id.to_be_bytes()), ie(IeType::PDI, pdi)].concat();
        ie(IeType::CREATE_PDR, &inner)
    }

    #[test]
    fn what_was_chosen_is_filled_in() {
        let choose = ie(IeType::F_TEID, &[0x0d, 7]);
        let ue = ie(IeType::UE_IP_ADDRESS, &[0x14]);
        let request = [
            create_pdr(1, &[choose.clone(), ue].concat()),
            create_pdr(2, &choose),
        ]
        .concat();
        let request = message(MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(0), 9, &request);
        let f_teid = [1, 0, 0, 0x10, 1, 10, 0, 3, 1];
        let created = [
            ie(IeType::PDR_ID, &[0, 1]),
            ie(IeType::F_TEID, &f_teid),
            ie(IeType::UE_IP_ADDRESS, &[2, 10, 45, 0, 2]),
        ];
        let answer = message(
            MessageType::SESSION_ESTABLISHMENT_RESPONSE,
            Some(5),
            9,
            &ie(IeType::CREATED_PDR, &created.concat()),
        );
        let filled = Chosen::of(&answer).fill(&request, None);
        let own = ie(IeType::F_TEID, &f_teid);
        let ue = ie(IeType::UE_IP_ADDRESS, &[6, 10, 45, 0, 2]);
        let expected = [create_pdr(1, &[own.clone(), ue].concat()), create_pdr(2, &own)].concat();
        assert_eq!(
            filled,
            message(MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(0), 9, &expected)
        );
        // Groups in groups in groups, and what no user plane chooses: not followed, not taken.
        let mut deep = ie(IeType::PDI, &choose);
        while deep.len() < 60_000 {
            deep = ie(IeType::PDI, &deep);
        }
        let deep = message(
            MessageType::SESSION_ESTABLISHMENT_REQUEST,
            Some(0),
            9,
            &create_pdr(1, &deep),
        );
        assert_eq!(Chosen::of(&answer).fill(&deep, None), deep);
        let long = [ie(IeType::PDR_ID, &[0, 1]), ie(IeType::F_TEID, &[1; 40_000])];
        let long = message(
            MessageType::SESSION_ESTABLISHMENT_RESPONSE,
            Some(5),
            9,
            &ie(IeType::CREATED_PDR, &long.concat()),
        );
        assert!(!Chosen::of(&long).has_any());
        // Nothing was chosen: it stays as it is.
        assert_eq!(Chosen::default().fill(&request, Some(3)), {
            let mut other = request.clone();
            other[11] = 3;
            other
        });
        assert_eq!(Head::read(&request).unwrap().sequence, 9);
        assert_eq!(Head::read(&request[..10]), None);
    }
}
