//! What the user plane has allocated, for the response: Created PDR, Updated PDR and Created Traffic Endpoint
//! (TS 29.244 Tables 7.5.3.2-1, 7.5.5.5-1 and 7.5.3.5-1).

use pfcp::Repeated;
use pfcp::group::{CreatedPdr, CreatedTrafficEndpoint, UpdatedPdr};
use pfcp::ie::{FTeid, PdrId, Teid, TrafficEndpointId, UeIpAddress};
use session::{Assigned, Done, Recipient};

/// What one PDR or Traffic Endpoint got.
#[derive(Debug)]
struct Allocated {
    to: Recipient,
    is_update: bool,
    f_teid: Option<FTeid>,
    ue_ip: Vec<UeIpAddress>,
}

/// All that one request was given.
#[derive(Debug)]
pub(crate) struct Allocations(Vec<Allocated>);

impl Allocations {
    /// In the order in which the request named what got them.
    pub(crate) fn of(done: &Done) -> Allocations {
        let mut all: Vec<Allocated> = Vec::new();
        for (to, own) in &done.created {
            entry(&mut all, *to, false).f_teid = Some(f_teid(own));
        }
        for assigned in &done.assigned {
            let entry = entry(&mut all, assigned.to, assigned.is_update);
            entry.ue_ip.push(ue_ip(assigned));
        }
        Allocations(all)
    }

    /// Created PDRs.
    pub(crate) fn pdrs(&self) -> Vec<CreatedPdr<'_>> {
        let created = self.0.iter().filter(|one| !one.is_update);
        let created = created.filter_map(|one| {
            let mut created = CreatedPdr::new(pdr_of(one)?);
            created.local_f_teid = one.f_teid;
            created.ue_ip_address = Repeated::new(&one.ue_ip);
            Some(created)
        });
        created.collect()
    }

    /// Updated PDRs.
    pub(crate) fn updated_pdrs(&self) -> Vec<UpdatedPdr<'_>> {
        let updated = self.0.iter().filter(|one| one.is_update);
        let updated = updated.filter_map(|one| {
            let mut updated = UpdatedPdr::new(pdr_of(one)?);
            updated.local_f_teid = one.f_teid;
            updated.ue_ip_address = Repeated::new(&one.ue_ip);
            Some(updated)
        });
        updated.collect()
    }

    /// Created Traffic Endpoints; updated ones, too, since there is no other IE for them.
    pub(crate) fn endpoints(&self) -> Vec<CreatedTrafficEndpoint<'_>> {
        let created = self.0.iter().filter_map(|one| {
            let Recipient::Endpoint(id) = one.to else {
                return None;
            };
            let mut created = CreatedTrafficEndpoint::new(TrafficEndpointId(id.0));
            created.local_f_teid = one.f_teid;
            created.ue_ip_address = Repeated::new(&one.ue_ip);
            Some(created)
        });
        created.collect()
    }
}

fn pdr_of(one: &Allocated) -> Option<PdrId> {
    match one.to {
        Recipient::Pdr(id) => Some(PdrId(id.0)),
        Recipient::Endpoint(_) => None,
    }
}

fn entry(all: &mut Vec<Allocated>, to: Recipient, is_update: bool) -> &mut Allocated {
    let place = all.iter().position(|one| one.to == to);
    let place = place.unwrap_or_else(|| {
        all.push(Allocated {
            to,
            is_update,
            f_teid: None,
            ue_ip: Vec::new(),
        });
        all.len() - 1
    });
    &mut all[place]
}

fn f_teid(own: &rules::model::FTeid) -> FTeid {
    FTeid::Endpoint {
        teid: Teid(own.teid.0),
        ipv4: own.ipv4,
        ipv6: own.ipv6,
    }
}

/// A length other than 64 is given in the form of the request: bits for delegation, or a length.
fn ue_ip(assigned: &Assigned) -> UeIpAddress {
    let address = assigned.address;
    let length = address
        .ipv6
        .map(|(_, length)| length)
        .filter(|length| *length != 64);
    let is_delegated = assigned.is_delegated && length.is_none_or(|length| length < 64);
    let bits = address
        .ipv6
        .filter(|_| is_delegated)
        .map(|(_, length)| 64 - length);
    UeIpAddress {
        is_destination: false,
        choose_v4: false,
        choose_v6: false,
        ipv4: address.ipv4,
        ipv6: address.ipv6.map(|(prefix, _)| prefix),
        ipv6_prefix_delegation_bits: bits,
        ipv6_prefix_length: length.filter(|_| !is_delegated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_reported_as_they_were_asked_for() {
        let prefix = "2001:db8::".parse().unwrap();
        let told = |length, is_delegated| {
            let assigned = Assigned {
                to: rules::model::PdrId(1).into(),
                address: rules::model::UeIpAddress {
                    ipv4: None,
                    ipv6: Some((prefix, length)),
                    is_destination: true,
                },
                is_delegated,
                is_update: false,
            };
            let told = ue_ip(&assigned);
            (told.ipv6_prefix_delegation_bits, told.ipv6_prefix_length)
        };
        assert_eq!(told(64, false), (None, None));
        assert_eq!(told(64, true), (Some(0), None));
        assert_eq!(told(56, true), (Some(8), None));
        assert_eq!(told(56, false), (None, Some(56)));
        assert_eq!(told(128, true), (None, Some(128)));
    }
}
