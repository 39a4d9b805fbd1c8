//! What a person may ask a trace for, from text.

use std::net::{IpAddr, SocketAddr};

use worker::TraceFlow;

/// Reads a flow: a protocol and two ends, with blanks or commas between, as `tcp 10.45.0.2:4000 192.0.2.1:443`. An end
/// without a port is every port; IPv6 with a port is `[2001:db8::1]:443`.
///
/// # Errors
/// What is wrong with it.
pub fn read_flow(text: &str) -> Result<TraceFlow, &'static str> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let [proto, one, other] = words[..] else {
        return Err("must be a protocol and two ends, as `tcp 10.45.0.2:4000 192.0.2.1:443`");
    };
    let ends = [read_end(one)?, read_end(other)?];
    if ends[0].0.is_ipv4() != ends[1].0.is_ipv4() {
        return Err("both ends must be of one IP version");
    }
    Ok(TraceFlow {
        proto: read_protocol(proto)?,
        ends,
    })
}

fn read_protocol(text: &str) -> Result<u8, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "icmp" => Ok(1),
        "icmpv6" => Ok(58),
        "sctp" => Ok(132),
        "esp" => Ok(50),
        "ah" => Ok(51),
        number => number
            .parse()
            .map_err(|_| "the protocol must be tcp, udp, icmp, icmpv6, sctp, esp, ah or a number to 255"),
    }
}

fn read_end(text: &str) -> Result<(IpAddr, u16), &'static str> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address, 0));
    }
    let end: SocketAddr = text
        .parse()
        .map_err(|_| "an end must be an address, or an address and a port")?;
    Ok((end.ip(), end.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_as_people_write_them() {
        let tcp = read_flow("tcp 10.45.0.2:4000 192.0.2.1:443").unwrap();
        assert_eq!(read_flow("6,10.45.0.2:4000,192.0.2.1:443"), Ok(tcp));
        let (ue, server): (IpAddr, IpAddr) = ("10.45.0.2".parse().unwrap(), "192.0.2.1".parse().unwrap());
        assert!(tcp.is(6, (ue, 4000), (server, 443)) && tcp.is(6, (server, 443), (ue, 4000)));
        assert!(!tcp.is(17, (ue, 4000), (server, 443)) && !tcp.is(6, (ue, 4001), (server, 443)));
        let any = read_flow("udp 10.45.0.2 192.0.2.1").unwrap();
        assert!(any.is(17, (server, 53), (ue, 9)));
        assert!(read_flow("icmpv6 2001:db8::1 2001:db8::2").is_ok());
        assert!(read_flow("udp [2001:db8::1]:1 [2001:db8::2]:2").is_ok());
        for bad in [
            "",
            "tcp",
            "tcp 10.0.0.1:1",
            "tcp 10.0.0.1:1 ::1",
            "abc 10.0.0.1 10.0.0.2",
            "tcp a b",
            "256 1.1.1.1 2.2.2.2",
        ] {
            assert!(read_flow(bad).is_err(), "{bad}");
        }
    }
}
