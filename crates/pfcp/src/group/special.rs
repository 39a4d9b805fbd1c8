//! Failures in part, and the features of few: L2TP, RDS, paging policies, Ethernet relocation.

use crate::ie::*;

groups! {
    /// Partial Failure Information.
    PartialFailureInformation = 272, "7.5.3.1-2" {
        114 M failed_rule_id: FailedRuleId,
        19 M failure_cause: Cause,
        274 Mn offending_ie_information: OffendingIeInformation<'a>,
    }

    /// L2TP Tunnel Information.
    L2tpTunnelInformation = 276, "7.5.2.1-2" {
        280 M lns_address: LnsAddress,
        313 O tunnel_password: TunnelPassword<'a>,
        281 C tunnel_preference: TunnelPreference,
    }

    /// L2TP Session Information.
    L2tpSessionInformation = 277, "7.5.2.1-3" {
        282 O calling_number: CallingNumber<'a>,
        283 O called_number: CalledNumber<'a>,
        287 O maximum_receive_unit: MaximumReceiveUnit,
        284 C l2tp_session_indications: L2tpSessionIndications,
        278 O l2tp_user_authentication: L2tpUserAuthentication<'a>,
    }

    /// Created L2TP Session.
    CreatedL2tpSession = 279, "7.5.3.1-3" {
        285 On dns_server_address: DnsServerAddress,
        286 On nbns_server_address: NbnsServerAddress,
        280 O lns_address: LnsAddress,
    }

    /// DSCP to PPI Control Information.
    DscpToPpiControlInformation = 316, "7.5.2.1-6" {
        317 Mn dscp_to_ppi_mapping_information: DscpToPpiMappingInformation<'a>,
        124 On qfi: Qfi,
    }

    /// Ethernet Context Information.
    EthernetContextInformation = 254, "7.5.4.21-1" {
        144 Mn mac_addresses_detected: MacAddressesDetected<'a>,
    }

    /// Provide RDS Configuration Information.
    ProvideRdsConfigurationInformation = 261, "7.5.2.11-1" {
        262 O rds_configuration_information: RdsConfigurationInformation,
    }
}
