//! The page for people: conferences in a browser. It is an ordinary client of the HTTP interface. It needs no build
//! step, and loads nothing from other servers.

use axum::http::header;
use axum::response::IntoResponse;

/// The page may load only the service's own files. No other page may put it into a frame, in which users could be led
/// to click its buttons without seeing them.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn index() -> impl IntoResponse {
    file(
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
    )
}

pub(super) async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("../page/page.css"))
}

pub(super) async fn script() -> impl IntoResponse {
    file(
        "text/javascript; charset=utf-8",
        include_str!("../page/page.js"),
    )
}

fn file(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A browser asks each time whether a file has changed, because a new version of the service has new files.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

#[cfg(test)]
mod tests {
    use axum::response::Response;

    use super::*;

    fn header_of(response: &Response, name: header::HeaderName) -> &str {
        let value = response.headers().get(name).expect("the header");
        value.to_str().expect("text")
    }

    #[tokio::test]
    async fn the_page_may_load_only_files_of_the_service() {
        let index = index().await.into_response();
        let policy = header_of(&index, header::CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        let types = [
            header_of(&index, header::CONTENT_TYPE).to_owned(),
            header_of(&style().await.into_response(), header::CONTENT_TYPE).to_owned(),
            header_of(&script().await.into_response(), header::CONTENT_TYPE).to_owned(),
        ];
        let expected = ["html", "css", "javascript"].map(|it| format!("text/{it}; charset=utf-8"));
        assert_eq!(types, expected);
    }

    #[test]
    fn the_page_has_nothing_that_its_policy_forbids_and_writes_no_html() {
        let html = include_str!("../page/index.html");
        let script = include_str!("../page/page.js");
        for forbidden in ["style=", "<style", "onclick", "http://", "https://"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        assert_eq!(
            html.matches("<script").count(),
            html.matches("<script type=\"module\" src=\"/page.js\"")
                .count()
        );
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "localStorage",
        ] {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
        // Each element that the script asks for is in the page.
        let asked: Vec<&str> = script
            .split("byId(\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert!(asked.len() > 20, "{asked:?}");
        for id in asked {
            assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }
}
