use std::io::{Error, ErrorKind};

/// How a request ended at the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing was sent: the client found no credentials, or could not use its configuration.
    NotSent,
    /// The last answer had this status.
    Status(u16),
    /// There was no connection.
    NoConnection,
    /// Time ran out.
    TimedOut,
    /// The connection broke.
    Broken,
}

/// The error of a failed request.
pub(super) fn error_of(answer: Answer) -> Error {
    let (kind, why) = match answer {
        Answer::NotSent => (
            ErrorKind::Other,
            "the request could not be made; check the credentials and the endpoint in the \
             environment"
                .to_string(),
        ),
        Answer::NoConnection => {
            let why = "the store could not be reached; check the endpoint and the network";
            (ErrorKind::ConnectionRefused, why.to_string())
        }
        Answer::TimedOut => (ErrorKind::TimedOut, "the store did not answer in time".to_string()),
        Answer::Broken => (ErrorKind::ConnectionReset, "the connection broke".to_string()),
        Answer::Status(status) => (kind_of(status), text_of(status)),
    };
    Error::new(kind, why)
}

/// What a status means to whoever asked.
fn kind_of(status: u16) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::PermissionDenied,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::TimedOut,
        // Another request to the same name was under way: it may be asked again.
        409 | 425 | 429 => ErrorKind::ResourceBusy,
        412 => ErrorKind::AlreadyExists,
        400..=499 => ErrorKind::InvalidInput,
        // The status was one of success, and the rest of the answer was not.
        200..=299 => ErrorKind::UnexpectedEof,
        500.. => ErrorKind::ConnectionAborted,
        _ => ErrorKind::Other,
    }
}

fn text_of(status: u16) -> String {
    match status {
        200..=299 => format!("the store answered {status}, and then not all of what it announced"),
        300..=399 => format!(
            "the store answered {status}: the bucket lies elsewhere; check the endpoint and the \
             region"
        ),
        401 | 403 => format!(
            "the store answered {status}: check the credentials, what they allow, and the clock"
        ),
        404 => "the store answered 404: there is no such object, or no such bucket".to_string(),
        _ => format!("the store answered {status}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{EnvError, Operation};

    #[test]
    fn an_answer_says_whether_the_request_may_have_been_done_and_may_be_repeated() {
        use Answer::{Broken, NoConnection, NotSent, Status, TimedOut};
        // answer, outcome unknown, transient
        let cases = [
            (NotSent, false, false),
            (NoConnection, false, true),
            (TimedOut, true, true),
            (Broken, true, true),
            (Status(200), true, true),
            (Status(301), false, false),
            (Status(400), false, false),
            (Status(401), false, false),
            (Status(403), false, false),
            (Status(404), false, false),
            (Status(408), true, true),
            (Status(409), false, true),
            (Status(412), false, false),
            (Status(416), false, false),
            (Status(429), false, true),
            (Status(500), true, true),
            (Status(503), true, true),
        ];
        for (answer, is_unknown, is_transient) in cases {
            let error =
                EnvError::new(Operation::PutObject, Path::new("s3://b/a"), error_of(answer));
            assert_eq!(error.is_unknown_outcome(), is_unknown, "{answer:?}");
            assert_eq!(error.is_transient(), is_transient, "{answer:?}");
            assert_eq!(error.is_not_found(), answer == Status(404), "{answer:?}");
        }
    }
}
