from omni_host.serve.playback import Playback


def test_audio_that_comes_in_time_starves_nobody():
    player = Playback()
    for now in (10.0, 10.5, 11.0):
        player.chunk(now, 1.0)

    assert (player.audio_s, player.underrun_s) == (3.0, 0.0)


def test_a_late_chunk_counts_from_when_the_player_ran_dry():
    player = Playback()
    player.chunk(0.0, 1.0)
    player.chunk(1.25, 1.0)
    player.chunk(3.0, 1.0)

    assert player.underrun_s == 0.25 + 0.75


def test_time_the_client_took_itself_is_no_underrun():
    player = Playback()
    player.chunk(0.0, 1.0)
    player.waited(4.0)
    player.chunk(4.5, 1.0)

    assert player.underrun_s == 0.0
    assert player.waited_s == 4.0


def test_waiting_before_any_audio_shifts_nothing():
    player = Playback()
    player.waited(2.0)
    player.chunk(5.0, 1.0)
    player.chunk(5.5, 1.0)

    assert player.underrun_s == 0.0
