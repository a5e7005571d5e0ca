// What guides single vertices: springs to an animation (goals), and long-range attachments to pins.

// [follow_goals] every `many`-th of the springs from `first` to before `last`; the goal goes straight from its start to its end over the step
row4* rows = (row4*)vertices.p.data;
// most springs are as the one before: no need to divide again
double frequency = -1.0, ratio = -1.0, stiff = 0.0, damp = 0.0;
const bool with_backstops = guides.goal_backstops.shape[0] > 0;
for (int i = first; i < last; i += many) {
    const int k = guides.goal_vertices.data[i];
    row4 row = rows[k];
    if (!(row[3] > 0.0))
        continue;
    const wp::vec_t<3, double> s = guides.goal_springs.data[i];
    if (s[0] != frequency || s[1] != ratio) {
        frequency = s[0];
        ratio = s[1];
        stiff = s[0] * s[0] * h * h;
        damp = 2.0 * s[1] * s[0] * h;
        const double share = 1.0 / (1.0 + stiff + damp);
        stiff *= share;
        damp *= share;
    }
    const wp::vec_t<3, double> from = guides.goal_starts.data[i];
    const wp::vec_t<3, double> to = guides.goal_ends.data[i];
    row4 goal, way;
    for (int c = 0; c < 3; ++c) {
        way[c] = to[c] - from[c];
        goal[c] = from[c] + progress * way[c];
    }
    way[3] = 0.0;
    goal[3] = row[3];
    row4 away = row - goal;
    row4* before = (row4*)vertices.before.data + k;
    const row4 moved = row - *before - share_of_step * way;
    away = away - stiff * away - damp * moved;
    // limits stop the vertex; what was beyond them before the substep is undone without giving velocity
    const double squared = away[0] * away[0] + away[1] * away[1] + away[2] * away[2];
    if (squared > s[2] * s[2]) {
        const double length = sqrt(squared);
        row4 then = *before - goal + share_of_step * way;
        const double over = sqrt(then[0] * then[0] + then[1] * then[1] + then[2] * then[2]) - s[2];
        row4 out = (1.0 / length) * away;
        away = s[2] * out;
        out[3] = 0.0;
        *before = *before - wp::min(wp::max(over, 0.0), length - s[2]) * out;
    }
    if (with_backstops) {
        // out of the ball behind the goal, along the line from its centre
        const wp::vec_t<4, double> ball = guides.goal_backstops.data[i];
        row4 out = away, then = *before - goal + share_of_step * way;
        for (int c = 0; c < 3; ++c) {
            out[c] -= ball[c];
            then[c] -= ball[c];
        }
        const double inside = sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2]);
        if (inside < ball[3] && inside > 0.0) {
            const double under = ball[3] - sqrt(then[0] * then[0] + then[1] * then[1] + then[2] * then[2]);
            out = (1.0 / inside) * out;
            out[3] = 0.0;
            away = away + (ball[3] - inside) * out;
            *before = *before + wp::min(wp::max(under, 0.0), ball[3] - inside) * out;
        }
    }
    away[3] = 0.0;
    rows[k] = goal + away;
}

// [attach_vertices] every `many`-th of these attachments: a vertex stays within its length of the pin
row4* rows = (row4*)vertices.p.data;
for (int i = first; i < last; i += many) {
    const wp::vec_t<2, int> e = guides.attached.data[i];
    const row4 a = rows[e[0]];
    row4 d = a - rows[e[1]];
    const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const double longest = guides.lengths.data[i];
    if (squared > longest * longest && a[3] > 0.0) {
        d[3] = 0.0;
        rows[e[0]] = a - (1.0 - longest / sqrt(squared)) * d;
    }
}
