//! The work of an update in parallel: on the threads of this process and, where a run has several, in the other
//! processes.
//!
//! Every process holds every model and has all rows of an update, so all cut it into the same jobs: the passes, or the
//! fixed sums that a gradient is made of. Job i falls to process i modulo their number; each then receives the others'
//! results, and continues with the same numbers in the same order as one process alone would: the same weights
//! everywhere, bit for bit.

use crate::threads::spread;
use flow_core::seed::mix;
use flow_model::{Peers, PolicyError, Result};

/// What one process can send to another: a job's result as bytes.
pub trait WireFormat: Sized {
    /// Appends it to a message.
    fn write(&self, to: &mut Vec<u8>);
    /// Parses a written value off the front of a message; nothing if it isn't one.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

impl WireFormat for Vec<f32> {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend((self.len() as u64).to_le_bytes());
        to.extend(self.iter().flat_map(|x| x.to_le_bytes()));
    }
    fn read(from: &mut &[u8]) -> Option<Vec<f32>> {
        let length = number(from)?.checked_mul(4)?;
        let (own, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(own.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect())
    }
}

/// Takes a number off the front of a message.
pub fn number(from: &mut &[u8]) -> Option<usize> {
    let (own, rest) = from.split_first_chunk::<8>()?;
    *from = rest;
    usize::try_from(u64::from_le_bytes(*own)).ok()
}

impl<T: WireFormat> WireFormat for Result<T> {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                to.push(1);
                value.write(to);
            }
            Err(error) => {
                to.push(0);
                // To memory, and of plain text and numbers: it can't fail; the reader reports what it can't parse.
                let text = serde_json::to_vec(error).unwrap_or_default();
                to.extend((text.len() as u64).to_le_bytes());
                to.extend(text);
            }
        }
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = from.split_first()?;
        *from = rest;
        if *kind == 1 {
            return T::read(from).map(Ok);
        }
        let length = number(from)?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        serde_json::from_slice(text).ok().map(Err)
    }
}

/// The threads of this process that share the work, and the other processes if there are any.
#[derive(Clone, Copy)]
pub struct Parallel<'a> {
    /// Threads of this process.
    pub threads: usize,
    /// The other processes.
    pub peers: Option<&'a dyn Peers>,
    /// A hash of the weights that the work starts from: processes whose weights differ must not add up what they find.
    pub start: u64,
}

impl Parallel<'_> {
    /// As [`spread`], over jobs 0 to `count`. The result is the same on every process; of several errors it is the
    /// first job's.
    pub fn spread<S: Send, T: Send + WireFormat>(
        &self,
        state: impl Fn() -> S,
        count: usize,
        run: impl Fn(&S, usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let Some(peers) = self.peers else {
            return spread(self.threads, state, &(0..count).collect::<Vec<_>>(), |state, &job| run(state, job));
        };
        let (here, processes) = peers.place();
        let own: Vec<usize> = (here..count).step_by(processes).collect();
        let done = match spread(self.threads, state, &own, |state, &job| Ok(run(state, job))) {
            Ok(done) => done,
            Err(error) => own.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut message = [self.start, count as u64].map(u64::to_le_bytes).concat();
        done.iter().for_each(|result| result.write(&mut message));
        let messages = peers.exchange(&message)?;
        let mut results: Vec<Option<Result<T>>> = (0..count).map(|_| None).collect();
        for (job, result) in own.into_iter().zip(done) {
            results[job] = Some(result);
        }
        for (process, message) in messages.iter().enumerate().filter(|(process, _)| *process != here) {
            let mut rest = message.as_slice();
            if number(&mut rest) != usize::try_from(self.start).ok() {
                return Err(PolicyError::Peer(format!(
                    "process {process} has come to other weights than process {here}: its machine rounds otherwise, so give the run machines of one kind"
                )));
            }
            let alike = number(&mut rest) == Some(count);
            for job in (process..count).step_by(processes).take_while(|_| alike) {
                results[job] = Result::read(&mut rest);
            }
            if !alike || !rest.is_empty() {
                return Err(other(process));
            }
        }
        results.into_iter().enumerate().map(|(job, result)| result.unwrap_or_else(|| Err(other(job % processes)))).collect()
    }
}

/// A hash of weights, by their bits.
pub fn hash(weights: &[f32]) -> u64 {
    weights.iter().fold(0, |hash, x| mix(hash, x.to_bits().into()))
}

fn other(process: usize) -> PolicyError {
    PolicyError::Peer(format!(
        "process {process} computes another update than this one: either all processes must have a GPU for libtorch or none"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back() {
        let mut message = Vec::new();
        let errors = [
            PolicyError::NotFinite { model: "actor".into(), what: "the loss".into(), rows: vec![3, 5] },
            PolicyError::Torch("out of memory".into()),
        ];
        let values = vec![0.1f32, -0.0, f32::INFINITY, f32::MIN_POSITIVE / 2.0];
        Ok(values.clone()).write(&mut message);
        errors.iter().for_each(|error| Err::<Vec<f32>, _>(error.clone()).write(&mut message));
        let whole = message.clone();
        let mut rest = whole.as_slice();
        let mut next = || <Result<Vec<f32>> as WireFormat>::read(&mut rest);
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&next().unwrap().unwrap()), bits(&values));
        for error in &errors {
            assert_eq!(next().unwrap().unwrap_err().to_string(), error.to_string());
        }
        assert!(next().is_none() && rest.is_empty());
        for cut in 1..25 {
            assert!(<Result<Vec<f32>> as WireFormat>::read(&mut &whole[..cut]).is_none(), "half a message");
        }
    }
}
