//! Sorts the nodes of a graph topologically: the nodes of a control, or the states of a parser.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
};

/// The nodes that `start` leads to, each after all nodes that lead to it. `None` if there is a cycle.
pub(crate) fn topological<T: Copy + Eq + Hash>(
    start: Option<T>,
    next: impl Fn(T) -> Vec<T>,
) -> Option<Vec<T>> {
    let mut done = Vec::new();
    // Whether a node is done; false while it is on the current path.
    let mut seen: HashMap<T, bool> = HashMap::new();
    let mut stack: Vec<(T, bool)> = start.map(|start| (start, false)).into_iter().collect();
    while let Some((node, is_left)) = stack.pop() {
        if is_left {
            seen.insert(node, true);
            done.push(node);
        } else if let Entry::Vacant(place) = seen.entry(node) {
            place.insert(false);
            stack.push((node, true));
            for next in next(node) {
                match seen.get(&next) {
                    Some(true) => {}
                    Some(false) => return None,
                    None => stack.push((next, false)),
                }
            }
        }
    }
    done.reverse();
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_a_node_is_before_it() {
        let order = |arrows: &[(u8, u8)]| {
            topological(Some(0), |node| {
                let from = arrows.iter().filter(|(from, _)| *from == node);
                from.map(|(_, to)| *to).collect()
            })
        };
        assert_eq!(order(&[(0, 1), (0, 2), (2, 1)]), Some(vec![0, 2, 1]));
        assert_eq!(order(&[(0, 1), (1, 2), (2, 1)]), None);
        assert_eq!(order(&[(0, 0)]), None);
        assert_eq!(order(&[(1, 1)]), Some(vec![0]));
        assert_eq!(topological(None, |_: u8| vec![]), Some(vec![]));
    }
}
