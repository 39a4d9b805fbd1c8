//! IEs of features that this node does not support: multi-access PDU sessions (MAR, ATSSS), time sensitive
//! communication (TSC), and multicast and broadcast services (MBS).
//!
//! Their values are kept as octets and written as they were read. What is in them is not checked: a request with one is
//! rejected by its presence, or the IE is ignored (docs/compliance/ts29244-ies.md).

octets! {
    /// Create MAR.
    CreateMar = 165, "§7.5.2.8";
    /// Update MAR.
    UpdateMar = 169, "§7.5.4.16";
    /// Remove MAR.
    RemoveMar = 168, "§7.5.4.15";
    /// Provide ATSSS Control Information.
    ProvideAtsssControlInformation = 220, "§7.5.2.10";
    /// ATSSS Control Parameters.
    AtsssControlParameters = 221, "§7.5.3.7";

    /// Whether information about the bridge is wanted.
    CreateBridgeInfoForTsc = 194, "§8.2.140";
    /// Created Bridge Info for TSC.
    CreatedBridgeInfoForTsc = 195, "§7.5.3.6";
    /// TSC Management Information (Session Modification Request).
    TscManagementInformation = 199, "§7.5.4.18";
    /// TSC Management Information (Session Modification Response).
    TscManagementInformationResponse = 200, "§7.5.5.3";
    /// TSC Management Information (Session Report Request).
    TscManagementInformationReport = 201, "§7.5.8.5";
    /// Clock Drift Control Information.
    ClockDriftControlInformation = 203, "§7.4.4.1.2";
    /// Clock Drift Report.
    ClockDriftReport = 205, "§7.4.5.1.4";

    /// MBS Session N4mb Control Information.
    MbsSessionN4mbControlInformation = 300, "§7.5.2.1";
    /// MBS Multicast Parameters.
    MbsMulticastParameters = 301, "§7.5.2.3";
    /// Add MBS Unicast Parameters.
    AddMbsUnicastParameters = 302, "§7.5.2.3";
    /// MBS Session N4mb Information.
    MbsSessionN4mbInformation = 303, "§7.5.3.1";
    /// Remove MBS Unicast Parameters.
    RemoveMbsUnicastParameters = 304, "§7.5.4.3";
    /// Which MBS session is meant.
    MbsSessionIdentifier = 305, "§8.2.206";
    /// Where MBS data comes in over UDP.
    LocalIngressTunnel = 308, "§8.2.209";
    /// MBS Session N4 Control Information.
    MbsSessionN4ControlInformation = 310, "§7.5.2.1";
    /// MBS Session N4 Information.
    MbsSessionN4Information = 311, "§7.5.3.1";
    /// The area of a location dependent service.
    AreaSessionId = 314, "§8.2.213";
}
