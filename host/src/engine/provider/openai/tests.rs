//! Tests of chat completions against a service on the loopback that answers what the test says.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// One call to a service that answers with these bytes and closes.
async fn call(answer: &str) -> Vec<ModelEvent> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains("include_usage") {
            let length = stream.read(&mut buffer).await.unwrap();
            seen.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = stream.shutdown().await;
    });
    let section = ProviderConfig {
        kind: ProviderType::LlamaSwap,
        base_url,
        api_key_env: None,
        headers: BTreeMap::new(),
        headers_env: BTreeMap::new(),
        model: None,
        models: Vec::new(),
        context_tokens: None,
        max_tokens: None,
        timeout: Duration::from_secs(60),
        retries: 0,
        script: None,
    };
    let provider = OpenAi::new(&section, &|_| None).unwrap();
    let mut events = provider.call(ModelRequest {
        model: "m".into(),
        instructions: "".into(),
        tools: Arc::default(),
        messages: Arc::default(),
        working_directory: "/".into(),
    });
    let mut all = Vec::new();
    while let Some(event) = events.recv().await {
        all.push(event);
    }
    all
}

fn stream(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

#[tokio::test]
async fn text_and_calls_that_come_in_pieces_become_whole() {
    let chunks = [
        r#"data: {"choices":[{"delta":{"content":"hi"}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":"{\"comm"}}]}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"and\":\"ls\"}"}}]},"finish_reason":"tool_calls"}]}"#,
        "data: [DONE]",
    ];
    let events = call(&stream(&format!("{}\n\n", chunks.join("\n\n")))).await;
    let call = ModelEvent::Call { name: "bash".into(), input: json!({ "command": "ls" }) };
    assert_eq!(events, [ModelEvent::Text("hi".into()), call, ModelEvent::Done]);
}

#[tokio::test]
async fn each_fault_is_told_as_what_it_is() {
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\n";
    let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}\r\n");
    let swap = r#"{"error":{"message":"the engine is not running"}}"#;
    let context = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"too long"}}"#;
    for (answer, fault, status, said) in [
        (head("503 X", "") + swap, Fault::Server, Some(503), "the engine is not running"),
        (head("401 X", "") + "<html>log in</html>", Fault::Auth, Some(401), "<html>log in"),
        (head("404 X", ""), Fault::ModelUnavailable, Some(404), ""),
        (head("400 X", "") + context, Fault::ContextExhausted, Some(400), "too long"),
        (
            head("200 OK", "content-type: text/html\r\n") + "<html>log in",
            Fault::Internal,
            Some(200),
            "log in",
        ),
        (stream(half), Fault::Network, None, "closed"),
        (stream("data: {broken\n\n"), Fault::Internal, Some(200), "{broken"),
    ] {
        let events = call(&answer).await;
        let Some(ModelEvent::Failed(error)) = events.last() else { panic!("{events:?}") };
        assert_eq!((error.fault, error.status, error.provider), (fault, status, "llamaswap"), "{answer}");
        assert!(error.message.contains(said), "{error}");
    }
    let events = call(&head("429 X", "retry-after: 7\r\n")).await;
    let Some(ModelEvent::Failed(error)) = events.last() else { panic!("{events:?}") };
    assert_eq!((error.fault, error.retry_after), (Fault::RateLimit, Some(Duration::from_secs(7))));
}
