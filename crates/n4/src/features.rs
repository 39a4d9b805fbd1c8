//! What we tell peers that we can do (TS 29.244 §8.2.25): exactly what is implemented.

use pfcp::ie::UpFunctionFeatures;

use crate::config::Config;

/// UP Function Features: F-TEIDs are allocated here (FTUP), Traffic Endpoints known (PDIU), framed routes followed
/// (FRRT), IPv6 prefixes of any length and several UE addresses taken (IP6PL); UE addresses are allocated where there
/// are pools (UEIP). EMPU, mandatory on N4 as well, is missing until end markers are sent. Written on eight octets.
pub(crate) fn up_function_features(config: &Config) -> UpFunctionFeatures {
    let always = UpFunctionFeatures::FTUP
        | UpFunctionFeatures::PDIU
        | UpFunctionFeatures::FRRT
        | UpFunctionFeatures::IP6PL;
    let pools = if config.sessions.pools.is_empty() {
        UpFunctionFeatures::empty()
    } else {
        UpFunctionFeatures::UEIP
    };
    (always | pools).on_octets(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeName;

    #[test]
    fn nothing_is_promised_that_is_not_done() {
        let node = NodeName::from(std::net::IpAddr::from([192, 0, 2, 1]));
        let mut config = Config::new(node, 1);
        let bits = |config: &Config| up_function_features(config).bits();
        let always = bits(&config);
        let named = UpFunctionFeatures::FTUP | UpFunctionFeatures::PDIU | UpFunctionFeatures::FRRT;
        assert_eq!(always, (named | UpFunctionFeatures::IP6PL).bits());
        config.sessions.pools.push(session::Pool {
            name: "a".into(),
            instance: flow::InstanceId(0),
            ranges: Vec::new(),
        });
        assert_eq!(bits(&config), always | UpFunctionFeatures::UEIP.bits());
    }
}
