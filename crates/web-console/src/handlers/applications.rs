//! Numbers and applications: the resources of the REST interface, listed over all of its accounts.

use admin::{Collection, ManagedResources, PageQuery};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::{Answer, Context, documents, recordings};
use crate::application_routes::ApplicationOperation;
use crate::fault::Fault;
use crate::parameters::Values;

/// Performs a request about applications.
pub(super) async fn perform(context: &Context<'_>, operation: ApplicationOperation) -> Result<Answer, Fault> {
    match operation {
        ApplicationOperation::ApplicationAccounts => list(context, Collection::Accounts).await,
        ApplicationOperation::Numbers => list(context, Collection::Numbers).await,
        ApplicationOperation::AddNumber => add(context, Collection::Numbers).await,
        ApplicationOperation::SetNumber => set(context, Collection::Numbers).await,
        ApplicationOperation::RemoveNumber => remove(context, Collection::Numbers).await,
        ApplicationOperation::Applications => list(context, Collection::Applications).await,
        ApplicationOperation::AddApplication => add(context, Collection::Applications).await,
        ApplicationOperation::SetApplication => set(context, Collection::Applications).await,
        ApplicationOperation::RemoveApplication => remove(context, Collection::Applications).await,
        ApplicationOperation::TestDocument => documents::test(context).await,
        ApplicationOperation::Recordings => list(context, Collection::Recordings).await,
        ApplicationOperation::Recording => recordings::sound(context).await,
        ApplicationOperation::RemoveRecording => remove(context, Collection::Recordings).await,
    }
}

/// Works with the resources on a thread that may wait for the database.
pub(super) async fn with_resources<T: Send + 'static>(
    context: &Context<'_>,
    work: impl FnOnce(&ManagedResources) -> Result<T, admin::Fault> + Send + 'static,
) -> Result<T, Fault> {
    let resources = context.state.applications.resources.clone().ok_or_else(|| {
        let message = "no applications answer calls at this node: see [voice] media in its configuration";
        Fault::new(axum::http::StatusCode::NOT_FOUND, message)
    })?;
    Ok(on_thread(context, move || work(&resources)).await??)
}

/// Works on a thread that may wait for the database, of which there are a few at once.
pub(super) async fn on_thread<T: Send + 'static>(
    context: &Context<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let places = &context.state.resource_requests;
    let place = places.clone().try_acquire_owned().map_err(|_| Fault::busy())?;
    let done = spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.map_err(|_| Fault::busy())
}

async fn list(context: &Context<'_>, collection: Collection) -> Result<Answer, Fault> {
    let values = &context.values;
    let query = PageQuery {
        collection,
        account: values.some_text("account").map(|sid| sid.trim().into()),
        call: values.some_text("call").map(|sid| sid.trim().into()),
        page: values.small("page").unwrap_or(0),
        limit: values.limit(),
    };
    let shown = (u64::from(query.page) + 1) * u64::from(query.limit);
    let page = with_resources(context, move |resources| resources.list(&query)).await?;
    let has_more = page.total > shown;
    Ok(Answer::Json(json!({ "rows": page.rows, "total": page.total, "has_more": has_more })))
}

async fn add(context: &Context<'_>, collection: Collection) -> Result<Answer, Fault> {
    let (account, subject) =
        (context.values.some_text("account").map(str::to_owned), subject(context, collection));
    let parameters = parameters(&context.values, collection);
    let work =
        move |resources: &ManagedResources| resources.create(collection, account.as_deref(), parameters);
    changed(context, &subject, with_resources(context, work).await)
}

async fn set(context: &Context<'_>, collection: Collection) -> Result<Answer, Fault> {
    let (sid, subject) = (context.variable().to_owned(), subject(context, collection));
    let mut parameters = parameters(&context.values, collection);
    // A number may be given to another account; an application stays where it is.
    let owner = context.values.some_text("account").filter(|_| collection == Collection::Numbers);
    parameters.extend(owner.map(|sid| ("AccountSid".to_owned(), sid.to_owned())));
    let work = move |resources: &ManagedResources| resources.update(collection, &sid, parameters);
    changed(context, &format!("{} {subject}", context.variable()), with_resources(context, work).await)
}

async fn remove(context: &Context<'_>, collection: Collection) -> Result<Answer, Fault> {
    let sid = context.variable().to_owned();
    let done = with_resources(context, move |resources| resources.remove(collection, &sid)).await;
    context.audit(context.variable(), done.as_ref().err());
    done.map(|()| Answer::Json(json!({ "rows": 1 })))
}

/// A change that was made or refused: a line of the log, and the resource as it is now.
fn changed(
    context: &Context<'_>,
    subject: &str,
    done: Result<serde_json::Value, Fault>,
) -> Result<Answer, Fault> {
    context.audit(subject, done.as_ref().err());
    done.map(|resource| Answer::Json(json!({ "resource": resource })))
}

/// The name of the resource in the log. URLs may have passwords in them.
fn subject(context: &Context<'_>, collection: Collection) -> String {
    context.values.text(if collection == Collection::Numbers { "number" } else { "name" }).to_owned()
}

/// The parameters of the REST interface. All of them are given, so that a field that is left empty is cleared.
fn parameters(values: &Values, collection: Collection) -> Vec<(String, String)> {
    let names: &[(&str, &str)] = match collection {
        Collection::Numbers => &[
            ("number", "PhoneNumber"),
            ("name", "FriendlyName"),
            ("voice_url", "VoiceUrl"),
            ("voice_method", "VoiceMethod"),
            ("voice_fallback_url", "VoiceFallbackUrl"),
            ("voice_application", "VoiceApplicationSid"),
            ("status_callback", "StatusCallback"),
        ],
        _ => &[
            ("name", "FriendlyName"),
            ("voice_url", "VoiceUrl"),
            ("voice_method", "VoiceMethod"),
            ("voice_fallback_url", "VoiceFallbackUrl"),
            ("status_callback", "StatusCallback"),
        ],
    };
    names.iter().map(|(ours, rest)| ((*rest).to_owned(), values.text(ours).trim().to_owned())).collect()
}
