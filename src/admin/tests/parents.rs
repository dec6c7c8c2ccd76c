//! Parents of a mux and their children.

use std::sync::Arc;

use lineway_actors::registry::{LineId, LineState, LineView, MuxNow, MuxView, Registry, Takes};
use lineway_actors::settings::{
    MuxClientSettings, MuxMode, MuxServerSettings, NodePlan, NodeSettings, Plan,
};
use lineway_actors::wire::line::LineKind;
use lineway_actors::wire::mux::ParentPause;
use lineway_actors::wire::units::Millis;
use serde_json::json;

use super::{add_lines, beside, context};

const PARENT: LineId = LineId { worker: 0, number: 1 };

/// An open parent of `mux` with both sides, of which 0-2 to 0-21 are children: ten of each side.
fn add_parent(registry: &Registry) -> [Arc<MuxView>; 2] {
    let view = LineView::new(PARENT, LineKind::Parent, "mux".into(), None, None);
    view.set_state(LineState::Open);
    view.set_cids_leased(64);
    view.set_cids_used(10);
    let client = Arc::new(MuxView::new("mux".into(), Some("counter")));
    let server = Arc::new(MuxView::new("end".into(), None));
    for side in [&client, &server] {
        side.set(MuxNow { children: 10, ..side.now() });
    }
    view.set_mux(|sides| {
        sides.client = Some(Arc::clone(&client));
        sides.server = Some(Arc::clone(&server));
    });
    registry.insert(Arc::new(view));
    add_lines(registry, "in", 2..=11);
    for number in 12..=21 {
        let id = LineId { worker: 0, number };
        let child = LineView::new(id, LineKind::Child, "end".into(), Some(PARENT), None);
        registry.insert(Arc::new(child));
    }
    for number in 2..=21 {
        registry.get(LineId { worker: 0, number }).unwrap().set_parent(PARENT);
    }
    [client, server]
}

#[tokio::test]
async fn a_parent_shows_its_sides_and_a_child_its_parent() {
    let context = context();
    let [client, _] = add_parent(&context.registry);
    client.set(MuxNow {
        paused: 2,
        queued: 7,
        reading: Some(ParentPause::ChildBuffer),
        ..client.now()
    });
    beside(context, |server| async move {
        let answer = server.get("/api/lines").await.json();
        let lines = answer["lines"].as_array().unwrap();
        let expected = json!([
            { "side": "client", "node": "mux", "mode": "counter", "state": "taking",
              "children": 10, "children_paused": 2, "queued": 7,
              "reading_paused": "child-buffer", "cids": { "leased": 64, "used": 10 } },
            { "side": "server", "node": "end", "state": "taking", "children": 10,
              "children_paused": 0, "queued": 0, "reading_paused": null },
        ]);
        assert_eq!(lines[0]["mux"], expected);
        assert_eq!((&lines[0]["parent"], &lines[0]["state"]), (&json!(null), &json!("open")));
        for child in &lines[1..] {
            assert_eq!((&child["parent"], &child["mux"]), (&json!("0-1"), &json!([])));
        }
        assert_eq!((&lines[1]["maker"], &lines[20]["maker"]), (&json!(null), &json!("0-1")));
    })
    .await;
}

#[tokio::test]
async fn mux_m12_a_parent_that_takes_no_further_child_says_so_in_its_state() {
    let context = context();
    let [client, server_side] = add_parent(&context.registry);
    let parent = context.registry.get(PARENT).unwrap();
    beside(context, |server| async move {
        let (open, opening) = (LineState::Open, LineState::Opening);
        for (line, takes, state) in [
            (open, [Takes::Exhausted, Takes::Taking], "exhausted"),
            (open, [Takes::Taking, Takes::Draining], "draining"),
            (open, [Takes::Draining, Takes::Exhausted], "draining"),
            (opening, [Takes::Exhausted, Takes::Taking], "opening"),
            (opening, [Takes::Draining, Takes::Taking], "draining"),
            (LineState::Closing, [Takes::Draining, Takes::Taking], "closing"),
        ] {
            parent.set_state(line);
            for (side, takes) in [&client, &server_side].into_iter().zip(takes) {
                side.set(MuxNow { takes, ..side.now() });
            }
            let answer = server.get("/api/lines?limit=1").await.json();
            assert_eq!(answer["lines"][0]["state"], state, "{line:?} {takes:?}");
            assert_eq!(answer["lines"][0]["mux"][0]["state"], takes[0].as_str());
        }
    })
    .await;
}

#[tokio::test]
async fn of_the_children_of_a_parent_so_many_as_are_asked_for_are_served() {
    let context = context();
    add_parent(&context.registry);
    add_lines(&context.registry, "in", 30..=39);
    beside(context, |server| async move {
        let ids = async |query: &str| {
            let answer = server.get(&format!("/api/lines?{query}")).await.json();
            let ids = answer["lines"].as_array().unwrap().iter();
            let ids: Vec<_> = ids.map(|line| line["id"].as_str().unwrap().to_owned()).collect();
            (answer["total"].as_u64().unwrap(), ids, answer["next"].clone())
        };
        let named = |numbers: &[u64]| -> Vec<_> {
            numbers.iter().map(|number| format!("0-{number}")).collect()
        };
        let (total, some, next) = ids("children=2&limit=6").await;
        assert_eq!((total, some, next), (31, named(&[1, 2, 3, 12, 13, 30]), json!("0-30")));
        let (_, rest, next) = ids("children=2&after=0-30").await;
        assert_eq!((rest, next), (named(&(31..=39).collect::<Vec<_>>()), json!(null)));
        let (total, of_parent, _) = ids("parent=0-1").await;
        assert_eq!((total, of_parent), (21, named(&(1..=21).collect::<Vec<_>>())));
        let (total, none, _) = ids("children=0&node=end").await;
        assert_eq!((total, none), (10, named(&[])));
    })
    .await;
}

#[tokio::test]
async fn nodes_of_a_mux_show_their_settings_their_parents_and_children() {
    let mut context = context();
    let [client, _] = add_parent(&context.registry);
    client.set(MuxNow { takes: Takes::Exhausted, paused: 2, queued: 7, ..client.now() });
    let mut plan = Plan::clone(&(context.plan)());
    let timer = MuxMode::Timer { connection_duration: Millis::new(5000) };
    let fixed = MuxMode::FixedConnectionsCount { per_worker: 2 };
    let counter = MuxMode::Counter { connection_capacity: 64 };
    let client = |name: &str, mode| NodePlan {
        name: name.into(),
        settings: NodeSettings::MuxClient(MuxClientSettings::new(mode)),
        next: Some("end".into()),
    };
    plan.nodes = vec![
        client("mux", counter),
        client("timed", timer),
        client("fixed", fixed),
        NodePlan {
            name: "end".into(),
            settings: NodeSettings::MuxServer(MuxServerSettings::default()),
            next: Some("echo".into()),
        },
    ];
    let plan = Arc::new(plan);
    context.plan = Arc::new(move || Arc::clone(&plan));
    beside(context, |server| async move {
        let answer = server.get("/api/nodes").await.json();
        let both =
            json!({ "child_buffer_limit": 8_388_608, "parent_buffer_limit": 33_554_432, "half_close": true });
        let with = |more: serde_json::Value| {
            let mut all = both.clone();
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let modes = [
            json!({ "mode": "counter", "connection_capacity": 64, "parent_retry_ms": 3000 }),
            json!({ "mode": "timer", "connection_duration_ms": 5000, "parent_retry_ms": 3000 }),
            json!({ "mode": "fixed-connections-count", "per_worker_connections_count": 2,
                    "parent_retry_ms": 3000 }),
            json!({ "max_children": 65536 }),
        ];
        for (node, settings) in answer["nodes"].as_array().unwrap().iter().zip(modes) {
            assert_eq!(node["settings"], with(settings), "{node}");
        }
        let parents = |parents: u64, exhausted: u64, children: u64, paused: u64, queued: u64| {
            json!({ "parents_open": parents, "parents_exhausted": exhausted,
                    "children_open": children, "children_paused": paused, "queued": queued })
        };
        let mux = |node: usize| &answer["nodes"][node]["mux"];
        assert_eq!(*mux(0), parents(1, 1, 10, 2, 7));
        assert_eq!(*mux(1), parents(0, 0, 0, 0, 0));
        assert_eq!(*mux(3), parents(1, 0, 10, 0, 0));
        assert_eq!((&answer["nodes"][0]["lines_open"], &answer["nodes"][3]["lines_open"]),
            (&json!(1), &json!(10)));
    })
    .await;
}
