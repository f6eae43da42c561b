//! What a model that a server runs answers: conversations and ranked choices.

use crate::generator::{Export, Generator};
use crate::remote::Remote;
use crate::server::ServerError;
use crate::ticket::Ticket;
use crate::{chat, rank};
use flow_model::{GenerationOutput, ModelFault, Reply, Request, Result, RowFault, Sampling, Tally};

impl Generator for Remote {
    /// As many requests are sent in parallel as the settings say.
    fn answer(&self, _: u64, requests: &[Request], sampling: &Sampling, _: Export) -> Result<GenerationOutput> {
        let (free, ranked): (Vec<usize>, Vec<usize>) = (0..requests.len()).partition(|&i| requests[i].choices.is_empty());
        let mut replies: Vec<Result<Reply, RowFault>> = requests.iter().map(|_| Ok(Reply::default())).collect();
        if !ranked.is_empty() {
            rank::can_rank(&self.running)?;
            let batch: Vec<&Request> = ranked.iter().map(|&i| &requests[i]).collect();
            ranked.iter().zip(rank::answer(self, &batch, sampling)?).for_each(|(&i, reply)| replies[i] = reply);
        }
        let batch: Vec<Request> = free.iter().map(|&i| requests[i].clone()).collect();
        let sampling = sampling.clone();
        let written = self.each(batch, move |running, request| chat::answer(running, request, &sampling))?;
        free.into_iter().zip(written).for_each(|(i, reply)| replies[i] = reply);
        Ok(GenerationOutput { replies, tokens: Tally::default() })
    }

    fn begin(&self, _: u64, request: &Request, sampling: &Sampling, ticket: Ticket, _: Export) -> Result<()> {
        let (running, request, sampling) = (self.running.clone(), request.clone(), sampling.clone());
        self.pool.push(0, &[], move |_| {
            let answer = match chat::answer(&running, &request, &sampling) {
                Ok(reply) => Ok(Ok(reply)),
                Err(ServerError::Row(fault)) => Ok(Err(fault)),
                Err(error) => Err(running.server.fault(ModelFault::Server { what: error.text() })),
            };
            ticket.answer(answer);
            true
        });
        Ok(())
    }

    fn own_tokens(&self) -> bool {
        false
    }
}
