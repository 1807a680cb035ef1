use std::fmt;
use std::hint::black_box;

/// The password that clients must give. It is never printed.
#[derive(Clone)]
pub struct Password(Vec<u8>);

impl Password {
    /// A password out of a file or an environment variable: line ends at its end do not count.
    ///
    /// `None` if nothing else is left.
    #[must_use]
    pub fn new(text: &[u8]) -> Option<Password> {
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'))?;
        Some(Password(text[..=end].to_vec()))
    }

    /// Whether `given` is the password, in time that depends on the length of `given` only.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        let mut difference = u8::from(given.len() != self.0.len());
        for (index, byte) in given.iter().enumerate() {
            let own = self.0[index % self.0.len()];
            difference = black_box(difference | (own ^ byte));
        }
        black_box(difference) == 0
    }

    /// The bytes, for a client that has to send them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_is_right() {
        let password = Password::new(b"secret\r\n").unwrap();
        assert!(password.is(b"secret"));
        for wrong in [&b""[..], b"secre", b"secret\n", b"secretsecret", b"Secret"] {
            assert!(!password.is(wrong));
        }
        assert_eq!(format!("{password:?}"), "Password(…)");
        assert!(Password::new(b"\n").is_none());
    }
}
