//! Conversations for a model that a server runs, whose own tokens aren't known here: the bytes of the messages, and
//! before each message a token for its role. So rows have a prompt and a response like those of any model, and read
//! back as text.

use super::chat::Message;
use super::words::WordVocabulary;

const ROLES: [&str; 3] = ["system", "user", "assistant"];

/// Bytes, and a token for each of [`ROLES`].
#[derive(Debug, PartialEq)]
pub struct ChatVocabulary(WordVocabulary);

impl ChatVocabulary {
    pub fn new() -> ChatVocabulary {
        ChatVocabulary(WordVocabulary::new(&[]))
    }

    /// The bytes of `text`.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode(text)
    }

    /// A conversation.
    ///
    /// # Errors
    /// For a role that servers don't know.
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>, String> {
        let mut tokens = Vec::new();
        for Message { role, content } in messages {
            let known = ROLES.iter().position(|known| known == role);
            let role = known.ok_or_else(|| format!("a server knows the roles {}, and not `{role}`", ROLES.join(", ")))?;
            tokens.push((self.0.vocab_size() + role) as u32);
            tokens.extend(self.0.encode(content));
        }
        Ok(tokens)
    }

    /// The messages of a conversation; what no role stands before is a user's.
    pub fn messages(&self, tokens: &[u32]) -> Vec<Message> {
        let role = |token: u32| (token as usize).checked_sub(self.0.vocab_size()).and_then(|role| ROLES.get(role));
        let mut starts: Vec<usize> = (0..tokens.len()).filter(|&i| i == 0 || role(tokens[i]).is_some()).collect();
        starts.push(tokens.len());
        let message = |bounds: &[usize]| {
            let span = &tokens[bounds[0]..bounds[1]];
            let who = span.first().and_then(|&token| role(token)).unwrap_or(&"user");
            Message { role: (*who).into(), content: self.0.decode(span) }
        };
        starts.windows(2).map(message).collect()
    }

    /// The text of tokens, with an empty line between messages.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let texts: Vec<String> = self.messages(tokens).into_iter().map(|message| message.content).collect();
        texts.join("\n\n")
    }

    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size() + ROLES.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_comes_back() {
        let vocabulary = ChatVocabulary::new();
        let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        let messages =
            vec![message("system", "Be brief."), message("user", "user: what? ✓"), message("assistant", ""), message("user", "so?")];
        let tokens = vocabulary.chat(&messages).unwrap();
        assert_eq!(vocabulary.messages(&tokens), messages);
        assert_eq!(vocabulary.decode(&tokens), "Be brief.\n\nuser: what? ✓\n\n\n\nso?");
        assert!(tokens.iter().all(|&token| (token as usize) < vocabulary.vocab_size()));
        assert_eq!(vocabulary.decode(&vocabulary.encode("up")), "up", "a response has no role");
        assert!(vocabulary.chat(&[message("tool", "")]).unwrap_err().contains("`tool`"));
    }
}
