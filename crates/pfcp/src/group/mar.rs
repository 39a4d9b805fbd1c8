//! Multi-Access Rules and ATSSS: one session over 3GPP and non-3GPP access.

use crate::ie::*;
use crate::wire::Edit;

groups! {
    /// Create MAR.
    CreateMar = 165, "7.5.2.8-1" {
        170 M mar_id: MarId,
        171 M steering_functionality: SteeringFunctionality,
        172 M steering_mode: SteeringMode,
        166 C three_gpp_access_forwarding_action_information: ThreeGppAccessForwardingActionInformation<'a>,
        167 C non_three_gpp_access_forwarding_action_information: NonThreeGppAccessForwardingActionInformation<'a>,
        288 C threshold_values: Thresholds,
        289 C steering_mode_indicator: SteeringModeIndicator,
    }

    /// 3GPP Access Forwarding Action Information.
    ThreeGppAccessForwardingActionInformation = 166, "7.5.2.8-2" {
        108 M far_id: FarId,
        173 C weight: Weight,
        174 C priority: Priority,
        81 Cn urr_id: UrrId,
        275 O rat_type: RatType,
    }

    /// Non-3GPP Access Forwarding Action Information.
    NonThreeGppAccessForwardingActionInformation = 167, "7.5.2.8-3" {
        108 M far_id: FarId,
        173 C weight: Weight,
        174 C priority: Priority,
        81 Cn urr_id: UrrId,
        275 O rat_type: RatType,
    }

    /// Update MAR.
    UpdateMar = 169, "7.5.4.16-1" {
        170 M mar_id: MarId,
        171 C steering_functionality: SteeringFunctionality,
        172 C steering_mode: SteeringMode,
        175 C update_three_gpp_access_forwarding_action_information: Edit<UpdateThreeGppAccessForwardingActionInformation<'a>>,
        176 C update_non_three_gpp_access_forwarding_action_information: Edit<UpdateNonThreeGppAccessForwardingActionInformation<'a>>,
        166 C three_gpp_access_forwarding_action_information: Edit<ThreeGppAccessForwardingActionInformation<'a>>,
        167 C non_three_gpp_access_forwarding_action_information: Edit<NonThreeGppAccessForwardingActionInformation<'a>>,
        288 C threshold_values: Edit<Thresholds>,
        289 C steering_mode_indicator: Edit<SteeringModeIndicator>,
    }

    /// Update 3GPP Access Forwarding Action Information.
    UpdateThreeGppAccessForwardingActionInformation = 175, "7.5.4.16-2" {
        108 C far_id: Edit<FarId>,
        173 C weight: Edit<Weight>,
        174 C priority: Edit<Priority>,
        81 Cn urr_id: UrrId,
        275 O rat_type: Edit<RatType>,
    }

    /// Update Non-3GPP Access Forwarding Action Information.
    UpdateNonThreeGppAccessForwardingActionInformation = 176, "7.5.4.16-3" {
        108 C far_id: Edit<FarId>,
        173 C weight: Edit<Weight>,
        174 C priority: Edit<Priority>,
        81 C urr_id: Edit<UrrId>,
        275 O rat_type: Edit<RatType>,
    }

    /// Remove MAR.
    RemoveMar = 168, "7.5.4.15-1" {
        170 M mar_id: MarId,
    }

    /// Provide ATSSS Control Information.
    ProvideAtsssControlInformation = 220, "7.5.2.10-1" {
        222 C mptcp_control_information: MptcpControlInformation,
        223 C atsss_ll_control_information: AtsssLlControlInformation,
        224 C pmf_control_information: PmfControlInformation<'a>,
    }

    /// ATSSS Control Parameters.
    AtsssControlParameters = 221, "7.5.3.7-1" {
        225 C mptcp_parameters: MptcpParameters<'a>,
        226 C atsss_ll_parameters: AtsssLlParameters<'a>,
        227 Cn pmf_parameters: PmfParameters<'a>,
    }

    /// MPTCP Parameters.
    MptcpParameters = 225, "7.5.3.7-2" {
        228 M mptcp_address_information: MptcpAddressInformation,
        229 M ue_link_specific_ip_address: UeLinkSpecificIpAddress,
    }

    /// ATSSS-LL Parameters.
    AtsssLlParameters = 226, "7.5.3.7-3" {
        231 M atsss_ll_information: AtsssLlInformation,
    }

    /// PMF Parameters.
    PmfParameters = 227, "7.5.3.7-4" {
        230 M pmf_address_information: PmfAddressInformation,
        124 O qfi: Qfi,
    }
}
