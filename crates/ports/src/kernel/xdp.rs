//! Which XDP program is on an interface, and taking one off that a process left behind.

use std::io;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;

use super::netlink::{Request, Socket, find, flags};

/// Messages and attributes of links (`linux/rtnetlink.h`, `linux/if_link.h`).
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
/// Octets before a link's attributes.
const BODY: usize = 16;
const XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_FLAGS: u16 = 3;
const XDP_PROGRAM: u16 = 4;
/// By where a program runs: in the driver, in the stack, in hardware. The attribute that has its number, and the flag
/// that means it.
const PLACES: [(u16, u32); 3] = [(5, 4), (6, 2), (7, 8)];

/// The number of the XDP program on an interface; `None` where there is none.
///
/// # Errors
/// The kernel's, when there is no such interface.
pub fn program(interface: &str) -> io::Result<Option<u32>> {
    Ok(programs(interface)?.map(|(program, _)| program))
}

/// Takes the program with this number off an interface. False where it has none, or another: that stays.
///
/// # Errors
/// The kernel's.
pub fn detach(interface: &str, wanted: u32) -> io::Result<bool> {
    let Some((program, place)) = programs(interface)? else {
        return Ok(false);
    };
    if program != wanted {
        return Ok(false);
    }
    let request = Request::default()
        .message(SET_LINK, flags::ACK, 1, &body(interface)?)
        .nested(XDP, |xdp| {
            xdp.attribute(XDP_FD, &(-1_i32).to_ne_bytes())
                .attribute(XDP_FLAGS, &place.to_ne_bytes())
        });
    Socket::open(SockProtocol::NetlinkRoute)?.ask(&request, 1)?;
    Ok(true)
}

/// The program, and the flag of the place where it runs.
fn programs(interface: &str) -> io::Result<Option<(u32, u32)>> {
    let request = Request::default().message(GET_LINK, flags::ACK, 1, &body(interface)?);
    let answers = Socket::open(SockProtocol::NetlinkRoute)?.ask(&request, 1)?;
    let Some(xdp) = answers.first().and_then(|link| link.attribute(BODY, XDP)) else {
        return Ok(None);
    };
    let number = |attribute| {
        find(xdp, attribute)?
            .first_chunk()
            .map(|octets| u32::from_ne_bytes(*octets))
    };
    let in_its_place = PLACES
        .iter()
        .find_map(|&(attribute, flag)| Some((number(attribute)?, flag)));
    Ok(in_its_place.or_else(|| Some((number(XDP_PROGRAM)?, 0))))
}

fn body(interface: &str) -> io::Result<[u8; BODY]> {
    let mut body = [0; BODY];
    body[4..8].copy_from_slice(&if_nametoindex(interface)?.to_ne_bytes());
    Ok(body)
}
