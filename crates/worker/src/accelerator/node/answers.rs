//! Questions of a node as frames, and what the answers of its host change.

use flow::Nanos;
use flow::contract::Refusal;
use flow::table_backend::TableBackend;
use offload::codec::CodecError;
use offload::exception::{Answer, Answers, Question, QuestionsWriter};
use offload::in_band::Agent;

use super::stats::NodeStats;
use crate::accelerator::asking::Questions;
use crate::accelerator::engine_tables::EngineTables;
use crate::io::Io;

/// The most octets of a frame with questions, behind its EtherType: a control frame's.
const MOST: usize = 1_500;

/// Gives the frames of all questions, behind their EtherType and no longer than `mtu`.
pub(super) fn frames_of(questions: &Questions, channel: u8, mtu: usize, mut send: impl FnMut(&[u8])) {
    let mut writer = QuestionsWriter::default();
    for (asked, head) in questions.all() {
        let question = Question {
            number: asked.number,
            port: asked.port,
            length: asked.length,
            user_packet: asked.user_packet,
            layer4: (asked.layer4 != 0).then_some(asked.layer4),
            head,
        };
        if !writer.add(channel, &question, mtu.min(MOST)) && !writer.octets().is_empty() {
            send(writer.octets());
            writer.clear();
            let _ = writer.add(channel, &question, mtu.min(MOST));
        }
    }
    if !writer.octets().is_empty() {
        send(writer.octets());
    }
}

/// An answer with the number of its question, or what is wrong with it.
pub(super) type ReadAnswer = Result<(u32, Answer), CodecError>;

/// Follows authentic answers of the worker at a place: flows are put, and what was kept for them passes behind all of
/// them. `read` is empty, before and after.
pub(super) fn follow<I: Io>(
    (agent, place): (&mut Agent<TableBackend<EngineTables<I>>>, usize),
    stats: &mut NodeStats,
    answers: Answers<'_>,
    read: &mut Vec<ReadAnswer>,
    now: Nanos,
) {
    let tables = agent.backend_mut().tables_mut();
    tables.engine_mut().pass_reinjected(now);
    tables.engine_mut().set_answering(true, now);
    read.extend(answers);
    agent
        .backend()
        .prefetch_put(read.iter().filter_map(|answer| match answer {
            Ok((_, Answer::ByFlow(session, flow))) => Some((*session, flow)),
            _ => None,
        }));
    for answer in read.drain(..) {
        let owns = matches!(&answer, Ok((_, Answer::ByFlow(session, _))) if agent.owns(place, *session));
        let backend = agent.backend_mut();
        let engine = backend.tables_mut().engine_mut();
        match answer {
            Ok((number, Answer::Whole)) => engine.answer_whole(number, now),
            Ok((number, Answer::ByFlow(session, flow))) => {
                if !engine.may_put_answered(number, &flow, now) {
                    continue;
                }
                let put = match owns {
                    true => backend.put_now(session, &flow, now),
                    false => Err(Refusal::Missing),
                };
                let engine = backend.tables_mut().engine_mut();
                match put {
                    Ok(()) => engine.note_answered(),
                    Err(_) => engine.answer_whole(number, now),
                }
            }
            Err(_) => stats.malformed += 1,
        }
    }
    let tables = agent.backend_mut().tables_mut();
    tables.engine_mut().set_answering(false, now);
}
