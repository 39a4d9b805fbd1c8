//! FARs (TS 29.244 Tables 7.5.2.3-1 and 7.5.4.3-1).

use pfcp::group::{self, CreateFar, UpdateFar};
use pfcp::ie::{self, Cause};
use pfcp::{Edit as WireEdit, IeType, Interfaces};
use rules::model::{
    ApplyAction, BarId, DestinationInterface, Edit, Far, FarId, FarUpdate, ForwardingParameters,
    ForwardingParametersUpdate, NatChoice, OptionalActions, OuterHeaderCreation, OuterHeaderKind, Redirect,
    TosTrafficClass,
};

use super::{Context, edit, refuse_if};
use crate::cause::Reject;
use rules::network::PolicyId;

/// Actions that this node does not do.
const UNSUPPORTED_ACTIONS: ApplyAction = ApplyAction::IPMA
    .with(ApplyAction::IPMD)
    .with(ApplyAction::DFRT)
    .with(ApplyAction::EDRT)
    .with(ApplyAction::FSSM)
    .with(ApplyAction::MBSU);

pub(super) fn create(far: &CreateFar<'_>, context: Context<'_>) -> Result<Far, Reject> {
    far.check_values()?;
    let id = FarId(far.far_id.0);
    let reject = Reject::rule(id);
    let unsupported = [
        far.redundant_transmission_forwarding_parameters.is_some(),
        far.mbs_multicast_parameters.is_some(),
        !far.add_mbs_unicast_parameters.is_empty(),
        // One copy of each packet.
        far.duplicating_parameters.len() > 1,
    ];
    refuse_if(&unsupported, reject)?;
    let duplicating = far.duplicating_parameters.iter().next();
    let sent = far.forwarding_parameters.as_ref();
    Ok(Far {
        id,
        action: apply_action(far.apply_action, reject, context)?,
        forwarding: sent
            .map(|sent| forwarding_parameters(sent, reject, context))
            .transpose()?,
        optional: OptionalActions {
            duplicating: duplicating
                .map(|sent| duplicating_parameters(&sent, reject, context))
                .transpose()?,
            redirect: sent
                .and_then(|sent| sent.redirect_information)
                .map(|sent| redirect(&sent, reject))
                .transpose()?,
            nat: match sent {
                Some(sent) => nat_choice(sent.bbf_apply_action, sent.bbf_nat_port_block, reject, context)?,
                None => None,
            },
        }
        .into(),
        bar: far.bar_id.map(|bar| BarId(bar.0)),
    })
}

pub(super) fn update(far: &UpdateFar<'_>, context: Context<'_>) -> Result<FarUpdate, Reject> {
    far.check_removals()?;
    let id = FarId(far.far_id.0);
    let reject = Reject::rule(id);
    let unsupported = [
        matches!(
            far.redundant_transmission_forwarding_parameters,
            Some(WireEdit::Set(_))
        ),
        !far.add_mbs_unicast_parameters.is_empty(),
        far.update_duplicating_parameters.len() > 1,
        !far.remove_mbs_unicast_parameters.is_empty(),
    ];
    refuse_if(&unsupported, reject)?;
    let duplicating = far.update_duplicating_parameters.iter().next();
    let duplicating = duplicating
        .map(|sent| duplicating_update(&sent, reject, context))
        .transpose()?;
    let sent = far.update_forwarding_parameters.as_ref();
    let forwarding = sent
        .map(|sent| forwarding_update(sent, reject, context))
        .transpose()?;
    Ok(FarUpdate {
        id,
        action: far
            .apply_action
            .map(|action| apply_action(action, reject, context))
            .transpose()?,
        forwarding: Edit::from(forwarding),
        duplicating: Edit::from(duplicating),
        redirect: match sent.and_then(|sent| sent.redirect_information) {
            None => Edit::Keep,
            Some(WireEdit::Remove) => Edit::Clear,
            Some(WireEdit::Set(sent)) => Edit::Set(redirect(&sent, reject)?),
        },
        nat: sent.map_or(Ok(Edit::Keep), |sent| nat_edit(sent, reject, context))?,
        bar: edit(far.bar_id, |bar| BarId(bar.0)),
    })
}

/// The actions of a FAR. Packets are duplicated over Sxa and Sxb alone (Table 7.5.2.3-1), for lawful interception.
fn apply_action(sent: ie::ApplyAction, reject: Reject, context: Context<'_>) -> Result<ApplyAction, Reject> {
    let action = ApplyAction(sent.bits() as u16);
    refuse_if(&[action.0 & UNSUPPORTED_ACTIONS.0 != 0], reject)?;
    let duplicates = action.0 & ApplyAction::DUPL.0 != 0;
    let may_duplicate = context.peer.interfaces.meets(Interfaces::SXA_SXB);
    let wrong = reject
        .because(Cause::MANDATORY_IE_INCORRECT)
        .offends(IeType::APPLY_ACTION);
    refuse_if(&[duplicates && !may_duplicate], wrong)?;
    Ok(action)
}

fn forwarding_parameters(
    sent: &group::ForwardingParameters<'_>,
    reject: Reject,
    context: Context<'_>,
) -> Result<ForwardingParameters, Reject> {
    sent.check_values()?;
    let unsupported = [
        sent.header_enrichment.is_some(),
        sent.proxying.is_some(),
        sent.ip_address_and_port_number_replacement.is_some(),
    ];
    refuse_if(&unsupported, reject)?;
    let policy = sent.forwarding_policy;
    Ok(ForwardingParameters {
        policy: policy.map(|sent| policy_of(sent, reject, context)).transpose()?,
        destination: destination(sent.destination_interface, &FORWARDED, reject)?,
        instance: context.instance(sent.network_instance, reject)?,
        outer_header_creation: sent
            .outer_header_creation
            .map(|sent| outer_header_creation(sent, reject))
            .transpose()?,
        transport_level_marking: sent.transport_level_marking.map(marking),
    })
}

fn forwarding_update(
    sent: &group::UpdateForwardingParameters<'_>,
    reject: Reject,
    context: Context<'_>,
) -> Result<ForwardingParametersUpdate, Reject> {
    sent.check_removals()?;
    let unsupported = [
        matches!(sent.header_enrichment, Some(WireEdit::Set(_))),
        matches!(
            sent.ip_address_and_port_number_replacement,
            Some(WireEdit::Set(_))
        ),
    ];
    refuse_if(&unsupported, reject)?;
    let policy = policy_edit(sent.forwarding_policy, reject, context)?;
    let instance = match sent.network_instance {
        None => Edit::Keep,
        Some(WireEdit::Remove) => Edit::Clear,
        Some(WireEdit::Set(name)) => Edit::from(context.instance(Some(name), reject)?),
    };
    Ok(ForwardingParametersUpdate {
        destination: sent
            .destination_interface
            .map(|to| destination(to, &FORWARDED, reject))
            .transpose()?,
        instance,
        policy,
        outer_header_creation: header_edit(sent.outer_header_creation, reject)?,
        transport_level_marking: edit(sent.transport_level_marking, marking),
    })
}

fn duplicating_parameters(
    sent: &group::DuplicatingParameters<'_>,
    reject: Reject,
    context: Context<'_>,
) -> Result<ForwardingParameters, Reject> {
    sent.check_values()?;
    let policy = sent.forwarding_policy;
    Ok(ForwardingParameters {
        policy: policy.map(|sent| policy_of(sent, reject, context)).transpose()?,
        destination: destination(sent.destination_interface, &DUPLICATED, reject)?,
        instance: None,
        outer_header_creation: sent
            .outer_header_creation
            .map(|sent| outer_header_creation(sent, reject))
            .transpose()?,
        transport_level_marking: sent.transport_level_marking.map(marking),
    })
}

fn duplicating_update(
    sent: &group::UpdateDuplicatingParameters<'_>,
    reject: Reject,
    context: Context<'_>,
) -> Result<ForwardingParametersUpdate, Reject> {
    sent.check_removals()?;
    Ok(ForwardingParametersUpdate {
        policy: policy_edit(sent.forwarding_policy, reject, context)?,
        destination: sent
            .destination_interface
            .map(|to| destination(to, &DUPLICATED, reject))
            .transpose()?,
        instance: Edit::Keep,
        outer_header_creation: header_edit(sent.outer_header_creation, reject)?,
        transport_level_marking: edit(sent.transport_level_marking, marking),
    })
}

/// Where packets are forwarded to. The LI function gets copies alone (TS 29.244 §5.7, §5.2.3.1), and there are no 5G VN
/// groups here (GCOM).
const FORWARDED: [ie::DestinationInterface; 4] = [
    ie::DestinationInterface::ACCESS,
    ie::DestinationInterface::CORE,
    ie::DestinationInterface::SGI_LAN,
    ie::DestinationInterface::CP_FUNCTION,
];

/// Where copies are sent to.
const DUPLICATED: [ie::DestinationInterface; 5] = [
    ie::DestinationInterface::ACCESS,
    ie::DestinationInterface::CORE,
    ie::DestinationInterface::SGI_LAN,
    ie::DestinationInterface::CP_FUNCTION,
    ie::DestinationInterface::LI_FUNCTION,
];

/// A Destination Interface (TS 29.244 §8.2.24): one that is not `known` here fails the rule, a spare value is incorrect
/// (§7.6.8).
fn destination(
    sent: ie::DestinationInterface,
    known: &[ie::DestinationInterface],
    reject: Reject,
) -> Result<DestinationInterface, Reject> {
    const LAST: u8 = ie::DestinationInterface::FIVE_G_VN_INTERNAL.0;
    let refused = reject.offends(IeType::DESTINATION_INTERFACE);
    match sent {
        sent if known.contains(&sent) => Ok(DestinationInterface::from_value(sent.0)),
        ie::DestinationInterface(..=LAST) => Err(refused),
        _ => Err(refused.because(Cause::MANDATORY_IE_INCORRECT)),
    }
}

/// The configured policy that an identifier names; else cause 70.
fn policy_of(
    sent: ie::ForwardingPolicy<'_>,
    reject: Reject,
    context: Context<'_>,
) -> Result<PolicyId, Reject> {
    let known = context.network.policy_by_name(sent.identifier.0);
    known.ok_or_else(|| {
        reject
            .because(Cause::INVALID_FORWARDING_POLICY)
            .offends(IeType::FORWARDING_POLICY)
    })
}

fn policy_edit(
    sent: Option<WireEdit<ie::ForwardingPolicy<'_>>>,
    reject: Reject,
    context: Context<'_>,
) -> Result<Edit<PolicyId>, Reject> {
    Ok(match sent {
        None => Edit::Keep,
        Some(WireEdit::Remove) => Edit::Clear,
        Some(WireEdit::Set(policy)) => Edit::Set(policy_of(policy, reject, context)?),
    })
}

/// The public addresses that the Broadband Forum's IEs ask for (TR-459.2): with the action NAT those of the pool that
/// the port block names, without it none.
fn nat_choice(
    action: Option<ie::BbfApplyAction>,
    block: Option<ie::BbfNatPortBlock<'_>>,
    reject: Reject,
    context: Context<'_>,
) -> Result<Option<NatChoice>, Reject> {
    let missing = reject.because(Cause::CONDITIONAL_IE_MISSING);
    match (action, block) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(missing.offends(IeType::BBF_APPLY_ACTION)),
        (Some(ie::BbfApplyAction(0)), _) => Ok(Some(NatChoice::Untranslated)),
        (Some(ie::BbfApplyAction::NAT), None) => Err(missing.offends(IeType::BBF_NAT_PORT_BLOCK)),
        (Some(ie::BbfApplyAction::NAT), Some(block)) => {
            let pool = context.network.nat().by_name(block.0).map(NatChoice::Pool);
            let unknown = reject.offends(IeType::BBF_NAT_PORT_BLOCK);
            pool.map(Some).ok_or(unknown)
        }
        (Some(_), _) => Err(reject.offends(IeType::BBF_APPLY_ACTION)),
    }
}

/// What of it an update says. A null length of the action takes back what the FAR has said.
fn nat_edit(
    sent: &group::UpdateForwardingParameters<'_>,
    reject: Reject,
    context: Context<'_>,
) -> Result<Edit<NatChoice>, Reject> {
    let block = sent.bbf_nat_port_block.and_then(WireEdit::value);
    match (sent.bbf_apply_action, sent.bbf_nat_port_block) {
        (Some(WireEdit::Remove), _) => Ok(Edit::Clear),
        // The action is as it was.
        (None, Some(WireEdit::Remove)) => Err(reject.offends(IeType::BBF_NAT_PORT_BLOCK)),
        (action, _) => {
            // Another pool alone: the action NAT is as it was.
            let action = action
                .and_then(WireEdit::value)
                .or(block.map(|_| ie::BbfApplyAction::NAT));
            let choice = nat_choice(action, block, reject, context)?;
            Ok(choice.map_or(Edit::Keep, Edit::Set))
        }
    }
}

/// A URL, of visible ASCII; other types of addresses are not redirected to, and get cause 73.
fn redirect(sent: &ie::RedirectInformation<'_>, reject: Reject) -> Result<Redirect, Reject> {
    const URL: u8 = 2;
    let url = Redirect::new(sent.address.0).filter(|_| sent.address_type == URL);
    url.ok_or_else(|| reject.offends(IeType::REDIRECT_INFORMATION))
}

/// An outer header. At least one bit of its description is to be set (TS 29.244 §8.2.56); spare ones do not count.
fn outer_header_creation(
    sent: ie::OuterHeaderCreation,
    reject: Reject,
) -> Result<OuterHeaderCreation, Reject> {
    const KNOWN: u16 = OuterHeaderKind::LL_SSM.0 << 1;
    let kind = OuterHeaderKind(sent.description.swap_bytes() & (KNOWN - 1));
    if kind.0 == 0 {
        let incorrect = reject.because(Cause::MANDATORY_IE_INCORRECT);
        return Err(incorrect.offends(IeType::OUTER_HEADER_CREATION));
    }
    Ok(OuterHeaderCreation {
        kind,
        teid: packet::Teid(sent.teid.map_or(0, |teid| teid.0)),
        ipv4: sent.ipv4,
        ipv6: sent.ipv6,
        port: sent.port,
    })
}

fn header_edit(
    sent: Option<WireEdit<ie::OuterHeaderCreation>>,
    reject: Reject,
) -> Result<Edit<OuterHeaderCreation>, Reject> {
    Ok(match sent {
        None => Edit::Keep,
        Some(WireEdit::Remove) => Edit::Clear,
        Some(WireEdit::Set(header)) => Edit::Set(outer_header_creation(header, reject)?),
    })
}

fn marking(sent: ie::TransportLevelMarking) -> TosTrafficClass {
    let [value, mask] = sent.0;
    TosTrafficClass { value, mask }
}
