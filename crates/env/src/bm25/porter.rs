//! The stem of an English word by Porter's algorithm (Porter 1980, "An algorithm for suffix stripping"), with the two
//! departures that its author's own program makes and Lucene keeps: `logi` becomes `log`, and `bli` (not `abli`)
//! becomes `ble`.

/// The stem of a word in small letters. Words of two letters and fewer, and words with anything but the letters a to z,
/// stay as they are in the parts that the rules don't match.
pub fn stem(word: &str) -> String {
    if word.chars().count() <= 2 {
        return word.into();
    }
    let mut w = Word(word.chars().collect());
    w.plurals();
    w.past();
    w.y();
    w.first_longest(DOUBLE, 1);
    w.first_longest(SINGLE, 1);
    w.last();
    w.e();
    w.0.into_iter().collect()
}

/// Step 2: double suffixes become single ones.
const DOUBLE: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

/// Step 3.
const SINGLE: &[(&str, &str)] =
    &[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];

/// Step 4: what goes from a long enough stem.
const LAST: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
];

struct Word(Vec<char>);

impl Word {
    fn ends(&self, suffix: &str) -> bool {
        let n = suffix.chars().count();
        self.0.len() >= n && self.0[self.0.len() - n..].iter().copied().eq(suffix.chars())
    }

    /// How long the word is without the suffix.
    fn without(&self, suffix: &str) -> usize {
        self.0.len() - suffix.chars().count()
    }

    fn replace(&mut self, suffix: &str, by: &str) {
        self.0.truncate(self.without(suffix));
        self.0.extend(by.chars());
    }

    /// Whether the letter is a consonant: `y` is one at the beginning and after a vowel.
    fn consonant(&self, i: usize) -> bool {
        match self.0[i] {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => i == 0 || !self.consonant(i - 1),
            _ => true,
        }
    }

    /// Porter's measure of the first `n` letters: how many times a consonant follows a vowel.
    fn measure(&self, n: usize) -> usize {
        (1..n).filter(|&i| self.consonant(i) && !self.consonant(i - 1)).count()
    }

    fn vowel(&self, n: usize) -> bool {
        (0..n).any(|i| !self.consonant(i))
    }

    fn doubled(&self) -> bool {
        let n = self.0.len();
        n >= 2 && self.0[n - 1] == self.0[n - 2] && self.consonant(n - 1)
    }

    /// Consonant, vowel, consonant at the end of the first `n` letters, the last not w, x or y.
    fn closed(&self, n: usize) -> bool {
        n >= 3 && self.consonant(n - 1) && !self.consonant(n - 2) && self.consonant(n - 3) && !matches!(self.0[n - 1], 'w' | 'x' | 'y')
    }

    /// Step 1a.
    fn plurals(&mut self) {
        if self.ends("sses") {
            self.replace("sses", "ss");
        } else if self.ends("ies") {
            self.replace("ies", "i");
        } else if self.ends("s") && !self.ends("ss") {
            self.replace("s", "");
        }
    }

    /// Step 1b.
    fn past(&mut self) {
        if self.ends("eed") {
            if self.measure(self.without("eed")) > 0 {
                self.replace("eed", "ee");
            }
            return;
        }
        let Some(suffix) = ["ed", "ing"].into_iter().find(|suffix| self.ends(suffix) && self.vowel(self.without(suffix))) else { return };
        self.replace(suffix, "");
        if let Some(whole) = ["at", "bl", "iz"].into_iter().find(|end| self.ends(end)) {
            self.replace(whole, &format!("{whole}e"));
        } else if self.doubled() {
            if !matches!(self.0.last(), Some('l' | 's' | 'z')) {
                self.0.pop();
            }
        } else if self.measure(self.0.len()) == 1 && self.closed(self.0.len()) {
            self.0.push('e');
        }
    }

    /// Step 1c.
    fn y(&mut self) {
        if self.ends("y") && self.vowel(self.without("y")) {
            self.replace("y", "i");
        }
    }

    /// Steps 2 and 3: the suffix of the table that the word ends with, replaced if enough stands before it. No two
    /// suffixes of a table that end a word alike are of one length, and the longest counts.
    fn first_longest(&mut self, table: &[(&str, &str)], least: usize) {
        let longest = table.iter().filter(|(suffix, _)| self.ends(suffix)).max_by_key(|(suffix, _)| suffix.len());
        if let Some((suffix, by)) = longest {
            if self.measure(self.without(suffix)) >= least {
                self.replace(suffix, by);
            }
        }
    }

    fn last(&mut self) {
        let Some(suffix) = LAST.iter().filter(|suffix| self.ends(suffix)).max_by_key(|suffix| suffix.len()) else { return };
        let before = self.without(suffix);
        let fits = *suffix != "ion" || before > 0 && matches!(self.0[before - 1], 's' | 't');
        if fits && self.measure(before) > 1 {
            self.replace(suffix, "");
        }
    }

    /// Step 5: a last `e`, and one of a double `l`.
    fn e(&mut self) {
        if self.ends("e") {
            let before = self.without("e");
            let measure = self.measure(before);
            if measure > 1 || measure == 1 && !self.closed(before) {
                self.0.pop();
            }
        }
        if self.ends("ll") && self.measure(self.0.len()) > 1 {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    /// The examples of Porter's paper, step by step, through the whole algorithm.
    #[test]
    fn words_have_the_stems_of_the_paper() {
        let known =
            "caresses caress, ponies poni, ties ti, caress caress, cats cat, feed feed, agreed agre, plastered plaster, bled bled, \
                     motoring motor, sing sing, conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, falling fall, \
                     hissing hiss, fizzed fizz, failing fail, filing file, happy happi, sky sky, relational relat, conditional condit, \
                     rational ration, digitizer digit, radically radic, vietnamization vietnam, operator oper, feudalism feudal, \
                     decisiveness decis, hopefulness hope, formality formal, sensibility sensibl, triplicate triplic, formative form, \
                     electrical electr, goodness good, revival reviv, allowance allow, airliner airlin, adjustable adjust, \
                     replacement replac, adoption adopt, communism commun, effective effect, probate probat, rate rate, cease ceas, \
                     controlling control, roll roll, moisturizing moistur, yoga yoga, of of, 6.76 6.76";
        for (word, expected) in known.split(", ").filter_map(|pair| pair.split_once(' ')) {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
