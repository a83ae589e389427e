//! The description of the interface for programs (OpenAPI 3.1).

use conference_api::{StreamAnswer, StreamMethod, StreamRequest};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// What failures are sent as (RFC 9457, section 3).
const PROBLEM: &str = "application/problem+json";
const JSON: &str = "application/json";

/// Describes the interface.
pub(super) fn description() -> OpenApi {
    let mut description = super::described().into_openapi();
    description.info.title = "Reprise conference service".to_owned();
    description.info.version = "1".to_owned();
    description.info.description = Some("People join conferences by themselves.".to_owned());
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        let responses = &mut operation.responses.responses;
        for (status, response) in &mut *responses {
            if let RefOr::T(response) = response
                && status.starts_with(['4', '5'])
            {
                is_problem(response);
            }
        }
        responses.insert("default".to_owned(), any_problem().into());
    }
    let components = description.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    // These messages go over event streams. They are no bodies of HTTP requests or responses, so the routes do not add
    // their schemas.
    for (name, schema) in [
        (StreamRequest::name(), StreamRequest::schema()),
        (StreamMethod::name(), StreamMethod::schema()),
        (StreamAnswer::name(), StreamAnswer::schema()),
    ] {
        components.schemas.insert(name.into_owned(), schema);
    }
    description
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.delete]
        .into_iter()
        .flatten()
}

/// The routes describe the bodies of failures as JSON; their type says that they are problems.
fn is_problem(response: &mut Response) {
    if let Some(content) = response.content.shift_remove(JSON) {
        response.content.insert(PROBLEM.to_owned(), content);
    }
}

/// What any request may be answered by.
fn any_problem() -> Response {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    ResponseBuilder::new()
        .description(
            "A problem of another kind: a path or a body that cannot be read (400, 413, 415), a method that the path does \
             not have (405), too many requests (429), or a service that cannot do it now or does not lead (503)",
        )
        .content(PROBLEM, content)
        .build()
}
