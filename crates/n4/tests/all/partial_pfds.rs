//! Partial acceptance of PFDs (PAPFD, TS 29.244 §5.42): of a request the applications are taken that can be, and the
//! others are named, to peers that take that.

use crate::support;

use pfcp::IeType;
use pfcp::ie::Cause;
use pfcp::message::Message;

use super::pfds::*;
use support::wire::*;
use support::*;

/// The applications that failed in part of a request, with their causes.
fn failures(reply: &Reply) -> Vec<(String, Cause)> {
    let Message::PfdManagementResponse(response) = reply.message() else {
        panic!("another response")
    };
    let failures = response.pfd_partial_failure_information.iter();
    let failures = failures.map(|one| {
        let id = String::from_utf8(one.application_id.0.to_vec());
        (id.unwrap(), one.failure_cause)
    });
    failures.collect()
}

#[test]
fn peers_that_take_part_of_a_request_are_told_what_has_failed() {
    let mut world = World::with_video();
    let custom = || contents(0x08, &[counted(b"of our own")]);
    let request = || {
        [
            application("video", &[flow(TO_OTHER)]),
            application("own", &[custom()]),
            application("bad", &[flow("deny out ip from any to assigned")]),
            application("many", &vec![flow(TO_OTHER); 257]),
            application("twice", &[flow(TO_OTHER)]),
            application("twice", &[flow(TO_OTHER), contents(0, &[])]),
        ]
    };
    let refused = because(Cause::SERVICE_NOT_SUPPORTED, Some(IeType::PFD_CONTENTS));
    let reply = world.provision(&request());
    assert_eq!((reply.verdict(), failures(&reply)), (refused, vec![]));
    assert_eq!(world.reaches(), [YES, NO]);
    let partial = ie(89, [0, 0x04]);
    world
        .ask(7, None, &[node_v4(SMF_ADDRESS), partial])
        .assert_accepted();
    for names_itself in [true, false] {
        let node = names_itself.then(|| node_v4(SMF_ADDRESS));
        let reply = world.provision(&request().into_iter().chain(node).collect::<Vec<_>>());
        assert_eq!(reply.verdict(), because(Cause::REQUEST_PARTIALLY_ACCEPTED, None));
        let of = |id: &str, cause| (id.to_owned(), cause);
        assert_eq!(
            failures(&reply),
            [
                of("own", Cause::SERVICE_NOT_SUPPORTED),
                of("bad", Cause::PFD_CONTENTS_SYNTAX_ERROR),
                of("many", Cause::NO_RESOURCES_AVAILABLE),
                of("twice", Cause::PFD_CONTENTS_SYNTAX_ERROR),
            ]
        );
        assert_eq!(world.reaches(), [NO, YES], "what can be taken is");
    }
    let ids: Vec<_> = world.n4.applications().map(|one| one.id.to_vec()).collect();
    assert_eq!(ids, [b"video"]);

    // What fails stays what it was; where all fails, nothing is accepted.
    let reply = world.provision(&[
        application("video", &[custom()]),
        application("music", &[flow(TO_VIDEO)]),
    ]);
    assert_eq!(
        failures(&reply),
        [("video".to_owned(), Cause::SERVICE_NOT_SUPPORTED)]
    );
    assert_eq!(world.reaches(), [NO, YES]);
    let reply = world.provision(&[application("video", &[custom()])]);
    assert_eq!((reply.verdict(), failures(&reply)), (refused, vec![]));
    // So where the response would be longer than a message may be.
    let long = application(&"x".repeat(60_000), &[]);
    let reply = world.provision(&[application("music", &[flow(TO_OTHER)]), long]);
    assert_eq!(
        reply.verdict(),
        because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::APPLICATION_ID))
    );
    let all = application("last", &[flow(TO_VIDEO)]);
    let reply = world.provision(&[all]);
    assert_eq!((reply.verdict().0, failures(&reply)), (1, vec![]));
}
