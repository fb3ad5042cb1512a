//! An estimate as a person reads it.

use fakegpu_proto::Estimate;
use fakegpu_units::VirtualSpan;

/// One or two sentences: the algorithm and who chose it, its steps, what bounds it and by how much, and what sharing
/// adds.
///
/// ```
/// use fakegpu_fabric::explain;
/// assert_eq!(explain(&fakegpu_proto::Estimate::default()), "One rank alone: nothing moves and nothing is waited for.");
/// ```
pub fn explain(estimate: &Estimate) -> String {
    if estimate.steps == 0 && estimate.base_latency > VirtualSpan::ZERO {
        return format!("To itself: the launch takes {}, and nothing crosses a link.", estimate.base_latency);
    }
    if estimate.steps == 0 {
        return "One rank alone: nothing moves and nothing is waited for.".to_owned();
    }
    let total = estimate.total();
    let moving = estimate.transfer + estimate.contention;
    let mut text = format!(
        "{}, chosen by the {}: {} {} and the launch take {}, {} of the {total}; ",
        capitalised(&estimate.algorithm),
        estimate.chosen_by,
        estimate.steps,
        if estimate.steps == 1 { "step" } else { "steps" },
        estimate.base_latency,
        percent(estimate.base_latency, total),
    );
    text.push_str(&format!("the busiest {} link is busy for {}.", class(estimate), share(moving, total)));
    if estimate.contention > VirtualSpan::ZERO {
        text.push_str(&format!(" Sharing that link accounts for {}.", share(estimate.contention, total)));
    }
    text
}

fn class(estimate: &Estimate) -> String {
    estimate.bottleneck.replace('_', "-")
}

fn share(part: VirtualSpan, total: VirtualSpan) -> String {
    format!("{part}, {}", percent(part, total))
}

/// In whole percent, as integers so that every machine prints the same.
fn percent(part: VirtualSpan, total: VirtualSpan) -> String {
    let whole = u128::from(total.as_picos()).max(1);
    match (u128::from(part.as_picos()) * 100 + whole / 2) / whole {
        0 if part > VirtualSpan::ZERO => "under 1 %".to_owned(),
        percent => format!("{percent} %"),
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
