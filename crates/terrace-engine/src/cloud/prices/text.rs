//! A sheet of prices as a text that people write: a small part of TOML.
//!
//! ```toml
//! # Every line may be left out. Prices are in dollars.
//! [prices]
//! base = "s3"                # what is not said below is taken from this sheet; else it is 0
//! name = "s3-eu"
//! source = "our contract"
//! date = "2026-01"
//! put_per_thousand = 0.0054  # put, upload part, list
//! get_per_thousand = 0.00043
//! delete_per_thousand = 0
//! read_out_per_gb = 0.09
//! stored_per_gb_month = 0.0245
//! iops = 6000                # of a volume: what is provisioned, what of it is free
//! iops_free = 3000
//! per_iops_month = 0.005
//! mb_per_s = 250
//! mb_per_s_free = 125
//! per_mb_per_s_month = 0.04
//! ```
//! There is one table, and its keys are bare; a string has no escapes and a number no sign, no
//! exponent and no underscore. What else TOML may say is refused, with the number of the line.

use std::collections::BTreeMap;

use super::{Dollars, PriceSheet, VolumePrices};
use crate::{Error, Result};

/// The longest name, source or date, in bytes.
const WORDS_BYTES_MAX: usize = 200;

const WORDS: [&str; 4] = ["base", "name", "source", "date"];
const PRICES: [&str; 7] = [
    "put_per_thousand",
    "get_per_thousand",
    "delete_per_thousand",
    "read_out_per_gb",
    "stored_per_gb_month",
    "per_iops_month",
    "per_mb_per_s_month",
];
const COUNTS: [&str; 4] = ["iops", "iops_free", "mb_per_s", "mb_per_s_free"];

impl PriceSheet {
    /// The sheet that a text describes, in a small part of TOML:
    ///
    /// ```toml
    /// [prices]
    /// base = "s3"              # what is not said is taken from this sheet; else it is 0
    /// name = "s3, from afar"
    /// read_out_per_gb = 0.09   # in dollars, as all prices
    /// ```
    ///
    /// The keys are the fields of a sheet and of [`VolumePrices`], and `base`. Without a `name`, a
    /// sheet that changes figures of its base is called `s3, changed`. A price is at most a
    /// million dollars, with up to twelve digits behind its point; a name is at most 200 bytes.
    ///
    /// Errors: `Invalid`, with the number of the line and what may stand there.
    pub fn parse(text: &str) -> Result<PriceSheet> {
        Lines::read(text)?.sheet()
    }
}

/// What the lines say, by their keys.
#[derive(Default)]
struct Lines<'a> {
    /// The key's line, and its value.
    said: BTreeMap<&'a str, (usize, &'a str)>,
}

fn wrong(line: usize, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("line {line} of the prices: {why}"))
}

impl<'a> Lines<'a> {
    fn read(text: &'a str) -> Result<Lines<'a>> {
        let mut lines = Lines::default();
        let mut is_inside = false;
        for (index, line) in text.lines().enumerate() {
            let (number, line) = (index + 1, without_comment(line).trim());
            if line.is_empty() {
                continue;
            }
            if line.starts_with('[') {
                if line != "[prices]" {
                    return Err(wrong(number, "the only table is [prices]"));
                }
                if is_inside {
                    return Err(wrong(number, "[prices] stands here for the second time"));
                }
                is_inside = true;
                continue;
            }
            if !is_inside {
                return Err(wrong(number, "[prices] must stand in a line before this one"));
            }
            let Some((key, value)) = line.split_once('=') else {
                let why = "a key and its value were expected, such as get_per_thousand = 0.0004";
                return Err(wrong(number, why));
            };
            lines.add(number, key.trim(), value.trim())?;
        }
        match is_inside {
            true => Ok(lines),
            false => Err(Error::invalid("a text of prices begins with the line [prices]")),
        }
    }

    fn add(&mut self, line: usize, key: &'a str, value: &'a str) -> Result<()> {
        let known = WORDS.iter().chain(&PRICES).chain(&COUNTS);
        if !known.clone().any(|known| *known == key) {
            let known: Vec<&str> = known.copied().collect();
            return Err(wrong(line, format!("there is no key {key:?}: {}", known.join(", "))));
        }
        match self.said.insert(key, (line, value)) {
            Some((first, _)) => {
                Err(wrong(line, format!("{key} stands in line {first} already; say it once")))
            }
            None => Ok(()),
        }
    }

    fn words(&self, key: &str) -> Result<Option<&'a str>> {
        let Some((line, value)) = self.said.get(key) else { return Ok(None) };
        let inner = ['"', '\''].into_iter().find_map(|quote| {
            let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
            let is_plain = !inner.contains(|c: char| c == quote || c == '\\' || c.is_control());
            is_plain.then_some(inner)
        });
        match inner {
            Some(inner) if inner.len() <= WORDS_BYTES_MAX => Ok(Some(inner)),
            Some(_) => Err(wrong(*line, format!("{key} is longer than {WORDS_BYTES_MAX} bytes"))),
            None => {
                let why = format!("{key} must be words in quotes, without \\ and further quotes");
                Err(wrong(*line, why))
            }
        }
    }

    fn set_price(&self, key: &str, price: &mut Dollars) -> Result<()> {
        let Some((line, value)) = self.said.get(key) else { return Ok(()) };
        *price = Dollars::parse(value).filter(|price| *price <= Dollars::PRICE_MAX).ok_or_else(
            || {
                let why = format!(
                    "{key} must be a number of dollars such as 0.005: at most a million, at most \
                     12 digits behind the point, no exponent"
                );
                wrong(*line, why)
            },
        )?;
        Ok(())
    }

    fn set_count(&self, key: &str, count: &mut u64) -> Result<()> {
        let Some((line, value)) = self.said.get(key) else { return Ok(()) };
        // Not all that Rust reads as a number is one here.
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = value.parse::<u32>().ok().filter(|_| is_number);
        *count = parsed
            .ok_or_else(|| wrong(*line, format!("{key} must be a whole number such as 3000")))?
            .into();
        Ok(())
    }

    fn sheet(&self) -> Result<PriceSheet> {
        let base = self.words("base")?;
        let mut sheet = match base {
            None => PriceSheet { name: "own".to_string(), ..PriceSheet::default() },
            Some(base) => PriceSheet::named(base).ok_or_else(|| {
                let line = self.said["base"].0;
                let names = PriceSheet::NAMES.join(", ");
                wrong(line, format!("no sheet is called {base:?}: {names}"))
            })?,
        };
        let has_figures = PRICES.iter().chain(&COUNTS).any(|key| self.said.contains_key(key));
        if base.is_some() && has_figures {
            sheet.name += ", changed";
        }
        for (key, field) in
            [("name", &mut sheet.name), ("source", &mut sheet.source), ("date", &mut sheet.date)]
        {
            if let Some(words) = self.words(key)? {
                *field = words.to_string();
            }
        }
        for (key, price) in [
            ("put_per_thousand", &mut sheet.put_per_thousand),
            ("get_per_thousand", &mut sheet.get_per_thousand),
            ("delete_per_thousand", &mut sheet.delete_per_thousand),
            ("read_out_per_gb", &mut sheet.read_out_per_gb),
            ("stored_per_gb_month", &mut sheet.stored_per_gb_month),
        ] {
            self.set_price(key, price)?;
        }
        let mut volume = sheet.volume.unwrap_or_default();
        for (key, count) in [
            ("iops", &mut volume.iops),
            ("iops_free", &mut volume.iops_free),
            ("mb_per_s", &mut volume.mb_per_s),
            ("mb_per_s_free", &mut volume.mb_per_s_free),
        ] {
            self.set_count(key, count)?;
        }
        self.set_price("per_iops_month", &mut volume.per_iops_month)?;
        self.set_price("per_mb_per_s_month", &mut volume.per_mb_per_s_month)?;
        sheet.volume = (volume != VolumePrices::default()).then_some(volume);
        Ok(sheet)
    }
}

/// A line up to its comment, which begins with `#` outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut within = None;
    for (at, letter) in line.char_indices() {
        match (letter, within) {
            ('#', None) => return &line[..at],
            ('"' | '\'', None) => within = Some(letter),
            (_, Some(quote)) if letter == quote => within = None,
            _ => {}
        }
    }
    line
}
