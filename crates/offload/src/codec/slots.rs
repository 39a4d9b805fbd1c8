//! The numbers by which sessions' objects are named.

use flow::{BlockImage, Direction};

use super::field::Field;

pub(super) const NO_SLOT: u8 = 0xff;
pub(super) const FORWARD_SLOT: Field = Field::most("forward slot", BlockImage::MAX_FORWARDS as u64 - 1);
pub(super) const QER_SLOT: Field = Field::most("QER slot", BlockImage::MAX_QERS as u64 - 1);
pub(super) const MARKING_SLOT: Field =
    Field::most_or("marking", BlockImage::MAX_QERS as u64 - 1, NO_SLOT as u64);
pub(super) const COUNTER_SLOT: Field = Field::most("counter slot", BlockImage::MAX_URRS as u64 - 1);
pub(super) const DIRECTION: Field = Field::most("direction", 1);
pub(super) const DIRECTIONS: &[Direction] = &Direction::BOTH;
